"""Rows held back for a while, so that they go on in order of their begin.

A transfer is reported when it has ended. So which of two began first is certain only when
nothing that began before can still be reported. How long to wait for that has no limit in
principle; here it is :data:`HORIZON_NS`. A transfer that lasts longer comes late, and an effect
that needs order then takes its begin for later than it was.

What is held does not grow with the length of a run.
"""

from __future__ import annotations

import numpy as np

from prism_sim.collector.rows import Rows, nothing

HORIZON_NS = 10_000_000_000
"""How long transfers may last and still be in order: 10 s."""


class DelayLine:
    """Holds rows until a time that begins after them has come.

    Attributes
    ----------
    held : rows that have not gone on yet.
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
        """Rows that begin before ``before_ns``, in the order they came in; None: all."""
        rows = np.concatenate([nothing(), *self.held])
        late = np.zeros(len(rows), bool) if before_ns is None else rows["start_ns"] >= before_ns
        self.held = []
        self.add(rows[late])
        return rows[~late]
