"""Repeat the evaluation of the publication: LLMPrism's experiments on simulated clusters.

:mod:`~reproduction.base` defines an experiment. A new one is a folder here and a line in
:data:`EXPERIMENTS`.
"""

from __future__ import annotations

from reproduction.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    name: Experiment.of(name, title, folder)
    for name, title, folder in (
        ("e1", "E1: job recognition", "e1_jobs"),
        ("e2", "E2: types of pairs, by window and by noise", "e2_pairs"),
        ("e3", "E3: timeline", "e3_timeline"),
        ("e4", "E4: an hour of switch bandwidth", "e4_switches"),
    )
}
"""The experiments by name, in the order of the page."""
