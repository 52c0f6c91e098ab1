"""What a trap is: a world, a prediction made before looking, and what to look at.

A new trap is a function in :mod:`.statistics`, :mod:`.pairs` or :mod:`.worlds`, a line in
:data:`..measure.TRAPS`, and its words in ``traps.yaml``. The prediction is a formula or a count of
what is in the truth. Whether it came true is decided from it, never from an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prism_sim.toolkit import Run
from reproduction.base import Result

Figures = dict[str, Any]
"""What is seen in a run: numbers by name, and ``fails``, whether the prediction came true."""


@dataclass(frozen=True)
class Trap:
    """One way in which the publication, read literally or as it stands, goes wrong.

    Attributes
    ----------
    number : as in the list of traps.
    scenario : name below ``scenarios/paper``.
    look : finds the figures in a diagnosed run and its score.
    """

    number: int
    scenario: str
    look: Callable[[Run, Result], Figures]
