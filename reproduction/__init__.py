"""Repeat the evaluation of the publication: LLMPrism's experiments on simulated clusters.

:mod:`~reproduction.base` defines an experiment. A new one is a folder here and a line in
:data:`EXPERIMENTS`.
"""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.e1_jobs import E1
from reproduction.e2_pairs import E2
from reproduction.e3_timeline import E3
from reproduction.e4_switches import E4
from reproduction.traps import TRAPS

_ALL: tuple[Experiment, ...] = (E1, E2, E3, E4, TRAPS)

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _ALL}
"""The experiments by name, in the order of the page."""
