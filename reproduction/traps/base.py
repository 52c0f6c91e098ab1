"""Definition of a trap: a scenario, a prediction, and a function that measures its figures.

A new trap is a function in :mod:`.statistics`, :mod:`.pairs` or :mod:`.workloads`, a line in
:data:`..measure.TRAPS`, and its text in ``traps.yaml``. The prediction is a formula, or a count in
the truth. The output of an earlier run is never used as a prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prism_sim.toolkit import Run
from reproduction.base import Result

Figures = dict[str, Any]
"""Figures of a run by name; ``fails`` tells whether the method fails as predicted."""


@dataclass(frozen=True)
class Trap:
    """One point at which the published method fails.

    Attributes
    ----------
    number : in the list of traps.
    scenario : name of a file in ``scenarios/paper``.
    figures : computes the figures of a diagnosed run and its score.
    """

    number: int
    scenario: str
    figures: Callable[[Run, Result], Figures]
