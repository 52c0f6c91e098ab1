"""Tables of the links that entities use.

A *template* is a list of the links of one entity, with the number of uses of each. All flows of a
route share one template, and all runs of a ring share one. A *bundle* is a few templates whose
entities start together and share one event at their end, such as the flows of a tensor-parallel
group's message.

Where a message is spread over parallel links, its template has a part of a use of each, and
:mod:`prism_sim.cluster.merging` joins links that are always loaded alike. Where it takes one of
several paths, its template has none, but a template for each path.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.merging import Merging, Spread
from prism_sim.cluster.state import CHOICE, ROW_HEAD, VIA, Int32s, Int64s, Tables, grown

HIDDEN = -1
"""The route of traffic that no switch observes, or that writes its own records."""

Weights = NDArray[np.float64]


class Templates:
    """A growing table of templates: template t has the ``uses[t]`` links from ``via[ptr[t]]`` on.

    ``shown[t]`` is the route in the records of its entities, or HIDDEN. Bundle b has the
    templates ``bundle[bundle_ptr[b]:bundle_ptr[b + 1]]``. ``need[b]`` limits their places in lists
    of uses, and is the size of one row of all their logs. A template is *coupled* if it has hops:
    see :class:`~prism_sim.cluster.state.Net`.

    Attributes
    ----------
    merging : which links stand for others.
    renewed : templates whose links have changed since the fabric read them.
    """

    def __init__(self) -> None:
        self.ptr = np.zeros(1024, np.int64)
        self.uses = np.zeros(1024, np.int32)
        self._room = np.zeros(1024, np.int32)
        self.via = np.zeros(4096, VIA)
        self.shown = np.full(1024, HIDDEN, np.int32)
        self.choice = np.zeros(1024, CHOICE)
        self.count = 0
        self.hop_ptr = np.zeros(1024, np.int64)
        self.hops = np.zeros(1024, np.int32)
        self.hop_link_ptr = np.zeros(1024, np.int64)
        self.hop_link = np.zeros(4096, np.int32)
        self.hop_weight = np.zeros(4096)
        self.bundle = np.zeros(1024, np.int32)
        self.bundle_ptr = np.zeros(1024, np.int64)
        self.need = np.zeros((1024, 2), np.int64)
        self.bundles = 0
        self.merging = Merging()
        self.renewed: set[int] = set()
        self._spread: dict[int, tuple[tuple[int, ...], Spread]] = {}
        self._coupled: dict[int, tuple[int, ...]] = {}
        self.tables = self._present_tables()

    def _present_tables(self) -> Tables:
        return Tables(
            self.ptr, self.uses, self.via, self.hop_ptr, self.hops, self.hop_link_ptr,
            self.hop_link, self.hop_weight, self.choice,
        )  # fmt: skip

    def add(
        self,
        links: Sequence[int] | Int64s,
        weights: Sequence[float] | Weights | None = None,
        route: int = HIDDEN,
    ) -> int:
        """Register the links of one entity, and count repeated ones; return its number."""
        if weights is None and len(set(links)) == len(links):
            at: Sequence[int] | Int32s = sorted(links)
            uses: float | Weights = 1.0
        else:
            at, uses = _counted(links, weights)
        self._reserve(len(at))
        begin = int(self.ptr[self.count])
        self.via["link"][begin : begin + len(at)] = at
        self.via["weight"][begin : begin + len(at)] = uses
        self.uses[self.count] = self._room[self.count] = len(at)
        self.shown[self.count] = route
        self.choice[self.count]["of"] = -1
        self.count += 1
        self.ptr[self.count] = begin + len(at)
        self.hop_ptr[self.count] = self.hop_ptr[self.count - 1]
        return self.count - 1

    def add_spread(self, ends: Sequence[int], spread: Spread, route: int = HIDDEN) -> int:
        """Register an entity that takes the links ``ends``, and all of ``spread`` between them."""
        self._admit(spread)
        template = self.add(*self._links_of(ends, spread), route)
        self._spread[template] = tuple(ends), spread
        return template

    def respread(self, template: int, ends: Sequence[int], spread: Spread) -> None:
        """Spread all that ``template`` sends in another way, also what it sends at present."""
        self._spread[template] = tuple(ends), spread
        if not self._admit(spread):
            self._renew([template])

    def add_choice(
        self, paths: Sequence[Sequence[int]], route: int, silent_ns: int, by_load: bool, key: int
    ) -> int:
        """Register an entity that takes one of ``paths``, each a list of as many links."""
        template = self.add((), route=route)
        first, count, size = self.count, len(paths), len(paths[0])
        self._reserve(count * size, count)
        begin, end, last = int(self.ptr[first]), int(self.ptr[first]) + count * size, first + count
        self.via["link"][begin:end] = np.sort(np.array(paths), axis=1).ravel()
        self.via["weight"][begin:end] = 1.0
        self.uses[first:last] = self._room[first:last] = size
        self.ptr[first : last + 1] = np.arange(begin, end + 1, size)
        self.hop_ptr[first : last + 1] = self.hop_ptr[first]
        self.shown[first:last], self.choice["of"][first:last] = route, template
        self.count = last
        row = self.choice[template]
        row["first"], row["last"], row["paths"] = first, first, len(paths)
        row["silent_ns"], row["by_load"], row["key"] = silent_ns, by_load, key
        return template

    def relink_paths(
        self, template: int, paths: Sequence[Sequence[int]], repeated: Sequence[float]
    ) -> None:
        """Let transfers of ``template`` choose among ``paths`` from now on, but no empty one.

        ``repeated`` are the bytes on the wire for each useful byte, on each path.
        """
        first = int(self.choice[template]["first"])
        self.choice["closed"][first : first + len(paths)] = [not path for path in paths]
        for path, (links, often) in enumerate(zip(paths, repeated, strict=True), first):
            begin = int(self.ptr[path])
            self.via["weight"][begin : begin + int(self.uses[path])] = often
            if links:
                self.relink(path, links)

    def links_of(self, template: int) -> tuple[Int32s, Weights]:
        """The links of ``template``, and how often it uses each."""
        begin = int(self.ptr[template])
        part = self.via[begin : begin + int(self.uses[template])]
        return part["link"], part["weight"]

    def chooses(self, template: int) -> bool:
        """Whether the transfers of ``template`` take one of several paths."""
        return bool(self.choice[template]["paths"])

    def last_choice(self, template: int) -> int:
        """The template whose links the last transfer of ``template`` used."""
        return int(self.choice[template]["last"]) if self.chooses(template) else template

    def follows(self, template: int) -> bool:
        """Whether a coupled ``template`` is written again whenever links of its hops change."""
        return template in self._coupled

    def path_numbers(self, templates: Int32s) -> Int32s:
        """Number of each path among those of its connection, from 1; 0 without a choice."""
        of = self.choice["of"][templates]
        return np.where(of >= 0, templates - self.choice["first"][of] + 1, 0).astype(np.int32)

    def add_coupled(self, hops: Sequence[int]) -> int:
        """Register an entity whose ``hops``, each a template, send at one pace."""
        each = [self.links_of(hop) for hop in hops]
        template = self.add(*_joined(each))
        self.hops[template] = len(hops)
        self._write_hops(template, each)
        if any(hop in self._spread for hop in hops):
            self._coupled[template] = tuple(hops)
        return template

    def add_coupled_choice(self, hops: Sequence[int]) -> int:
        """Register an entity of coupled hops that :func:`~.choosing.join_hops` may give others."""
        template = self.add_coupled(hops)
        total = sum(int(self.uses[hop]) for hop in hops)
        self._reserve(total)
        self.ptr[template], self._room[template] = self.ptr[self.count], total
        self.ptr[self.count] += total
        return template

    def relink(self, template: int, links: Sequence[int]) -> None:
        """Give entities that start from now on the ``links``: all different, as many as before."""
        begin, end = self.ptr[template], self.ptr[template] + self.uses[template]
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
        uses = sum(self._most_uses(t) for t in templates)
        hops = (int(self.hops[t]) for t in templates)
        rows = sum(1 << (ROW_HEAD + h - 1).bit_length() for h in hops if h)
        self.need[number] = 2 * uses, rows  # space is a power of two
        self.bundles += 1
        self.tables = self._present_tables()
        return number

    def _most_uses(self, template: int) -> int:
        """Links that an entity of ``template`` uses, at most."""
        paths, first = int(self.choice[template]["paths"]), int(self.choice[template]["first"])
        if paths:
            return int(self.uses[first : first + paths].max())
        hop, hops = self.hop_ptr[template], self.hops[template]
        in_hops = self.hop_link_ptr[hop + hops] - self.hop_link_ptr[hop] if hops else 0
        return max(int(self.uses[template]), int(in_hops))

    def _count_uses(self) -> None:
        """Count the links of all bundles again."""
        used = self.bundle[: self.bundle_ptr[self.bundles]]
        most = np.array([self._most_uses(t) for t in used.tolist()])
        total = np.concatenate(([0], np.cumsum(most)))
        self.need[: self.bundles, 0] = 2 * np.diff(total[self.bundle_ptr[: self.bundles + 1]])

    def _admit(self, spread: Spread) -> bool:
        """Split links that ``spread`` loads in other proportions; return whether some were."""
        split = [self.merging.admit(leg) for leg in spread.legs]
        if any(split):
            self._renew(self._spread)
        return any(split)

    def _renew(self, templates: Collection[int]) -> None:
        """Write the links of spread ``templates`` again, and of what is coupled over them."""
        changed = set(templates)
        for template in templates:
            self._write_links(template, *_counted(*self._links_of(*self._spread[template])))
        for coupled, hops in self._coupled.items():
            if not changed.isdisjoint(hops):
                each = [self.links_of(hop) for hop in hops]
                self._write_links(coupled, *_counted(*_joined(each)))
                self._write_hops(coupled, each)
                changed.add(coupled)
        self.renewed |= changed
        self._count_uses()
        self.tables = self._present_tables()

    def _links_of(self, ends: Sequence[int], spread: Spread) -> tuple[Int64s, Weights]:
        """The links that entities use for ``ends`` and ``spread``, and the weight of each."""
        merged = [self.merging.merged(leg) for leg in spread.legs]
        links = np.concatenate([np.array(ends), *(first for first, _ in merged)])
        shares = np.concatenate([np.ones(len(ends)), *(share for _, share in merged)])
        return links, shares * spread.repeated

    def _write_links(self, template: int, links: Int32s, weights: Weights) -> None:
        """Replace the links of ``template``: in their place, if it has room for them."""
        if len(links) > self._room[template]:
            self._room[template] = room = max(len(links), 2 * self._room[template])
            self._reserve(int(room))
            self.ptr[template] = self.ptr[self.count]
            self.ptr[self.count] += room
        begin = int(self.ptr[template])
        self.via["link"][begin : begin + len(links)] = links
        self.via["weight"][begin : begin + len(links)] = weights
        self.uses[template] = len(links)

    def _write_hops(self, template: int, hops: Sequence[tuple[Int32s, Weights]]) -> None:
        """Write the links of every hop of ``template`` after those of all others."""
        first = int(self.hop_ptr[self.count])
        self._reserve_hops(first + len(hops), sum(len(links) for links, _ in hops))
        for hop, (links, weights) in enumerate(hops, first):
            begin = int(self.hop_link_ptr[hop])
            end = begin + len(links)
            self.hop_link[begin:end], self.hop_weight[begin:end] = links, weights
            self.hop_link_ptr[hop + 1] = end
        self.hop_ptr[template], self.hop_ptr[self.count] = first, first + len(hops)

    def _reserve(self, uses: int, templates: int = 1) -> None:
        if self.count + templates + 1 > len(self.ptr):
            places = 2 * (len(self.ptr) + templates)
            self.ptr, self.hop_ptr = grown(self.ptr, places), grown(self.hop_ptr, places)
            self.uses, self.hops = grown(self.uses, places), grown(self.hops, places)
            self._room, self.choice = grown(self._room, places), grown(self.choice, places)
            self.shown = grown(self.shown, places, HIDDEN)
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
            self.hop_weight = grown(self.hop_weight, len(self.hop_link))
        self.tables = self._present_tables()


def _counted(
    links: Sequence[int] | Int64s, weights: Sequence[float] | Weights | None
) -> tuple[Int32s, Weights]:
    """All different ``links``, ascending, and how often each is used."""
    at, slot = np.unique(np.asarray(links, np.int32), return_inverse=True)
    return at, np.bincount(slot, weights, len(at)).astype(float)


def _joined(hops: Sequence[tuple[Int32s, Weights]]) -> tuple[Int64s, Weights]:
    """The links of all hops in one list, and their weights."""
    links = np.concatenate([links for links, _ in hops]).astype(np.int64)
    return links, np.concatenate([weights for _, weights in hops])
