"""The publication's evaluation, made again: LLMPrism's experiments on simulated clusters.

:mod:`~prism_sim.studies.paper.base` says what an experiment is; a further one is a folder
here and a line in :data:`EXPERIMENTS`.
"""

from __future__ import annotations

from prism_sim.studies.paper.base import Experiment
from prism_sim.studies.paper.e1_jobs import E1
from prism_sim.studies.paper.e2_pairs import E2
from prism_sim.studies.paper.e3_timeline import E3
from prism_sim.studies.paper.e4_switches import E4
from prism_sim.studies.paper.traps import TRAPS

_ALL: tuple[Experiment, ...] = (E1, E2, E3, E4, TRAPS)

EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _ALL}
"""The experiments by name, in the order of the page."""
