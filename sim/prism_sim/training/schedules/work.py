"""What a schedule is made of.

A schedule is data, not behaviour: for one stage it lists what is computed, in order. What
must be waited for, and what is sent on, follows from the kind of work and is the
worker's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

FORWARD, BACKWARD = 0, 1


class Work(NamedTuple):
    """One piece of a stage's work: the pass (FORWARD or BACKWARD) of one micro-batch."""

    kind: int
    micro_batch: int


Schedule = Callable[[int, int, int], list[Work]]
"""(stage, stages, micro_batches) -> the stage's work in order."""
