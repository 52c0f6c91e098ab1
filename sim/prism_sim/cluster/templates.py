"""Which links an entity uses, and how often: shared by all entities of one route or ring."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prism_sim.cluster.state import VIA, grown

HIDDEN = -1
"""The route of what no switch sees, or of what writes its records itself."""


class Templates:
    """A growing table of templates: template t uses the links ``via[ptr[t]:ptr[t + 1]]``.

    ``shown[t]`` is the route that records of its entities carry, or HIDDEN.
    """

    def __init__(self) -> None:
        self.ptr = np.zeros(1024, np.int64)
        self.via = np.zeros(4096, VIA)
        self.shown = np.full(1024, HIDDEN, np.int32)
        self.count = 0

    def add(
        self, links: Sequence[int], weights: Sequence[float] | None = None, route: int = HIDDEN
    ) -> int:
        """Register the links of one entity, adding up repeated ones; returns its number."""
        at, slot = np.unique(np.asarray(links, np.int32), return_inverse=True)
        self._reserve(len(at))
        begin = int(self.ptr[self.count])
        self.via["link"][begin : begin + len(at)] = at
        self.via["weight"][begin : begin + len(at)] = np.bincount(slot, weights, len(at))
        self.shown[self.count] = route
        self.count += 1
        self.ptr[self.count] = begin + len(at)
        return self.count - 1

    def _reserve(self, uses: int) -> None:
        if self.count + 2 > len(self.ptr):
            self.ptr = grown(self.ptr, 2 * len(self.ptr))
            self.shown = grown(self.shown, 2 * len(self.shown), HIDDEN)
        needed = int(self.ptr[self.count]) + uses
        if needed > len(self.via):
            self.via = grown(self.via, max(needed, 2 * len(self.via)))
