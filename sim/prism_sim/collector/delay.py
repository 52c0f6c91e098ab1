"""Rows are held for a while, so that they can be passed on in order of their start.

A transfer is reported when it has ended. The order of starts is therefore certain only when no
earlier start can still be reported. That wait has no upper bound in principle; here it is
:data:`HORIZON_NS`. A transfer that lasts longer is reported late, and an effect that needs order
then treats it as if it had started later.

The number of held rows does not grow with the length of a run.
"""

from __future__ import annotations

import numpy as np

from prism_sim.collector.rows import Rows, nothing

HORIZON_NS = 10_000_000_000
"""Maximum duration of a transfer that is still in order: 10 s."""


class DelayLine:
    """Holds rows until the simulation has passed their start by the horizon.

    Attributes
    ----------
    held : rows that have not been passed on yet.
    """

    def __init__(self) -> None:
        self.held: list[Rows] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.held)

    def add(self, rows: Rows) -> None:
        """Hold ``rows``."""
        if len(rows):
            self.held.append(rows)

    def release(self, before_ns: int | None = None) -> Rows:
        """Rows that start before ``before_ns``, in the order they were added; None: all."""
        rows = np.concatenate([nothing(), *self.held])
        late = np.zeros(len(rows), bool) if before_ns is None else rows["start_ns"] >= before_ns
        self.held = []
        self.add(rows[late])
        return rows[~late]
