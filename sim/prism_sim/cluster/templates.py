"""Tables of the links that entities use.

A *template* is a list of the links of one entity, with the number of uses of each. All flows of a
route share one template, and all runs of a ring share one. A *bundle* is a few templates whose
entities start together and share one event at their end, such as the flows of a tensor-parallel
group's message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.state import ROW_HEAD, VIA, Tables, grown

HIDDEN = -1
"""The route of traffic that no switch observes, or that writes its own records."""


class Templates:
    """A growing table of templates: template t uses the links ``via[ptr[t]:ptr[t + 1]]``.

    ``shown[t]`` is the route in the records of its entities, or HIDDEN. Bundle b has the
    templates ``bundle[bundle_ptr[b]:bundle_ptr[b + 1]]``. ``need[b]`` limits their places in lists
    of uses, and is the size of one row of all their logs. A template is *coupled* if it has hops:
    see :class:`~prism_sim.cluster.state.Net`.
    """

    def __init__(self) -> None:
        self.ptr = np.zeros(1024, np.int64)
        self.via = np.zeros(4096, VIA)
        self.shown = np.full(1024, HIDDEN, np.int32)
        self.count = 0
        self.hop_ptr = np.zeros(1024, np.int64)
        self.hop_link_ptr = np.zeros(1024, np.int64)
        self.hop_link = np.zeros(4096, np.int32)
        self.bundle = np.zeros(1024, np.int32)
        self.bundle_ptr = np.zeros(1024, np.int64)
        self.need = np.zeros((1024, 2), np.int64)
        self.bundles = 0
        self.tables = self._present_tables()

    def _present_tables(self) -> Tables:
        return Tables(self.ptr, self.via, self.hop_ptr, self.hop_link_ptr, self.hop_link)

    def add(
        self, links: Sequence[int], weights: Sequence[float] | None = None, route: int = HIDDEN
    ) -> int:
        """Register the links of one entity, and count repeated ones; return its number."""
        if weights is None and len(set(links)) == len(links):
            at: Sequence[int] | NDArray[np.int32] = sorted(links)
            uses: float | NDArray[np.float64] = 1.0
        else:
            at, slot = np.unique(np.asarray(links, np.int32), return_inverse=True)
            uses = np.bincount(slot, weights, len(at)).astype(float)
        self._reserve(len(at))
        begin = int(self.ptr[self.count])
        self.via["link"][begin : begin + len(at)] = at
        self.via["weight"][begin : begin + len(at)] = uses
        self.shown[self.count] = route
        self.count += 1
        self.ptr[self.count] = begin + len(at)
        self.hop_ptr[self.count] = self.hop_ptr[self.count - 1]
        return self.count - 1

    def add_coupled(self, hops: Sequence[Sequence[int]]) -> int:
        """Register an entity whose ``hops`` send at one pace, each over its links."""
        template = self.add([link for links in hops for link in links])
        first = int(self.hop_ptr[template])
        self._reserve_hops(first + len(hops), sum(len(links) for links in hops))
        for hop, links in enumerate(hops, first):
            begin = int(self.hop_link_ptr[hop])
            end = begin + len(links)
            self.hop_link[begin:end] = links
            self.hop_link_ptr[hop + 1] = end
        self.hop_ptr[template + 1] = first + len(hops)
        return template

    def relink(self, template: int, links: Sequence[int]) -> None:
        """Give entities that start from now on the ``links``: all different, as many as before."""
        begin, end = self.ptr[template], self.ptr[template + 1]
        self.via["link"][begin:end] = np.sort(links)

    def add_bundle(self, templates: Sequence[int]) -> int:
        """Register templates that start together; return the number of the bundle."""
        number = self.bundles
        begin = int(self.bundle_ptr[number])
        end = begin + len(templates)
        if end > len(self.bundle):
            self.bundle = grown(self.bundle, 2 * end)
        if number + 2 > len(self.bundle_ptr):
            self.bundle_ptr = grown(self.bundle_ptr, 2 * (number + 2))
        if number == len(self.need):
            self.need = np.vstack((self.need, np.zeros_like(self.need)))
        self.bundle[begin:end] = templates
        self.bundle_ptr[number + 1] = end
        uses = sum(int(self.ptr[t + 1] - self.ptr[t]) for t in templates)
        hops = (int(self.hop_ptr[t + 1] - self.hop_ptr[t]) for t in templates)
        rows = sum(1 << (ROW_HEAD + h - 1).bit_length() for h in hops if h)
        self.need[number] = 2 * uses, rows  # space is a power of two
        self.bundles += 1
        self.tables = self._present_tables()
        return number

    def _reserve(self, uses: int) -> None:
        if self.count + 2 > len(self.ptr):
            self.ptr = grown(self.ptr, 2 * len(self.ptr))
            self.hop_ptr = grown(self.hop_ptr, 2 * len(self.hop_ptr))
            self.shown = grown(self.shown, 2 * len(self.shown), HIDDEN)
        needed = int(self.ptr[self.count]) + uses
        if needed > len(self.via):
            self.via = grown(self.via, max(needed, 2 * len(self.via)))
        self.tables = self._present_tables()

    def _reserve_hops(self, hops: int, links: int) -> None:
        if hops + 1 > len(self.hop_link_ptr):
            self.hop_link_ptr = grown(self.hop_link_ptr, 2 * (hops + 1))
        needed = int(self.hop_link_ptr[int(self.hop_ptr[self.count])]) + links
        if needed > len(self.hop_link):
            self.hop_link = grown(self.hop_link, max(needed, 2 * len(self.hop_link)))
        self.tables = self._present_tables()
