"""The causes of one publication."""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.operations.causes import Cause


@dataclass(frozen=True)
class Campaign:
    """Causes with their counts, and where they were published."""

    name: str
    about: str
    causes: tuple[Cause, ...]
