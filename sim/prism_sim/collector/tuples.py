"""The 5-tuples that records belong to.

Every route of the training traffic has its own 5-tuple, and so has each queue pair.
Acknowledgements, connection set-up and other traffic add 5-tuples without a route. Their
addresses may be missing from the topology.

When an uplink fails, the switches rehash all 5-tuples. Traffic in flight ends on its old path, so
a record names the path that its 5-tuple had when the record started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.routes import Router
from prism_sim.cluster.ways import DYNAMIC_PORTS, ROCE_PORT, UDP, UNKNOWN_HOP, Failed
from prism_sim.collector.keyed import Words, hashed
from prism_sim.draws import Draws
from prism_sim.scenario.library import Transport

ICMP, TCP = 1, 6


Owner = tuple[str, str]
"""Name of the job (or service) whose traffic a 5-tuple carries, and kind of that traffic."""


class FiveTuple(NamedTuple):
    """One direction of a connection; addresses are numbers of names."""

    src: int
    dst: int
    src_port: int
    dst_port: int
    protocol: int


@dataclass
class Columns:
    """The columns of all known 5-tuples; they grow."""

    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    src_port: list[int] = field(default_factory=list)
    dst_port: list[int] = field(default_factory=list)
    protocol: list[int] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)


class Past(NamedTuple):
    """The paths of 5-tuples, and the 5-tuples of routes, before a rehash."""

    until_ns: int
    failed: Failed
    path: list[int]
    of_route: NDArray[np.int32]


class Tuples:
    """A growing table of 5-tuples, numbered in the order in which they were first needed.

    Parameters
    ----------
    router : the routes, and the path of any other 5-tuple.
    draws : for the ports of 5-tuples without a route.
    transports : transport protocol of each job's traffic.
    transport : protocol of traffic that belongs to none of these jobs.

    Attributes
    ----------
    names : addresses; those of the cluster's NICs first, by number of the port.
    owners : of each 5-tuple; None for unowned ones.
    """

    def __init__(
        self,
        router: Router,
        draws: Draws,
        transports: Mapping[str, Transport] | None = None,
        transport: Transport = "roce",
    ) -> None:
        self.router = router
        self.names = list(router.layout.addresses)
        self.owners: list[Owner | None] = []
        self._transports = transports or {}
        self._transport = transport
        self._draws = draws
        self._nics = len(self.names)
        self._columns = Columns()
        self._number: dict[FiveTuple, int] = {}
        self._aliases: dict[tuple[int, FiveTuple], int] = {}
        self._original: list[int] = []
        self._of_route: list[int] = []
        self._routed: set[int] = set()
        self._reverse: dict[int, int] = {}
        self._past: list[Past] = []
        self._arrays: dict[str, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._columns.src)

    def of_routes(
        self, routes: NDArray[np.int32], start_ns: NDArray[np.int64] | None = None
    ) -> NDArray[np.int32]:
        """The 5-tuple that each of ``routes`` had at ``start_ns`` [simulation ns]; default: now."""
        for number in range(len(self._of_route), len(self.router.routes)):
            at = self._opened(number)
            self._of_route.append(at)
            self._routed.add(at)
        of = np.array(self._of_route, np.int32)[routes]
        if start_ns is None:
            return of
        for past in reversed(self._past):
            early = (start_ns < past.until_ns) & (routes < len(past.of_route))
            of[early] = past.of_route[routes[early]]
        return of

    def keep_paths(self, now_ns: int) -> None:
        """Keep the present paths for traffic that started before ``now_ns``; they will change."""
        self.of_routes(np.zeros(0, np.int32))  # includes those without a record
        of_route = np.array(self._of_route, np.int32)
        path = self._columns.path.copy()
        self._past.append(Past(now_ns, self.router.failed(), path, of_route))

    def reroute(self, routes: Iterable[int]) -> None:
        """Read the new paths of these routes, and compute those of all other 5-tuples again.

        A route that has moved to other ports of its NICs, with other addresses, gets a new 5-tuple.
        """
        path, r = self._columns.path, self.router.routes
        for route in routes:
            before = self.tuple_of(self._of_route[route])
            if (before.src, before.dst) != (r.src[route], r.dst[route]):
                self._of_route[route] = self._opened(route)
                self._routed.add(self._of_route[route])
            path[self._of_route[route]] = r.path[route]
        for number, original in enumerate(self._original):
            if number == original and number not in self._routed:
                path[number], _ = self._path_of(self.tuple_of(number))
        self._arrays.pop("path", None)

    def path_at(self, tuples: NDArray[np.int32], start_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The path of records that start on each of ``tuples`` at ``start_ns`` [simulation ns]."""
        path = self.column("path")[tuples]
        for past in reversed(self._past):
            early = start_ns < past.until_ns
            path[early] = np.array(past.path, np.int64)[tuples[early]]
        return path

    def add(self, tup: FiveTuple, owner: Owner | None = None) -> int:
        """The number of any other 5-tuple; the switches' hashes give its path."""
        if tup not in self._number:
            number = self._append(tup, *self._path_of(tup), owner)
            for past in self._past:
                past.path[number], _ = self._path_of(tup, past.failed)
        return self._number[tup]

    def alias(self, number: int, tup: FiveTuple) -> int:
        """The number of ``tup``, an alias of 5-tuple ``number``: same path, same draws."""
        if (number, tup) not in self._aliases:
            c = self._columns
            alias = self._append(tup, c.path[number], c.latency_ns[number], self.owners[number])
            self._original[alias] = self._original[number]
            self._aliases[number, tup] = alias
        return self._aliases[number, tup]

    def tuple_of(self, number: int) -> FiveTuple:
        """The 5-tuple with a number."""
        c = self._columns
        columns = (c.src, c.dst, c.src_port, c.dst_port, c.protocol)
        return FiveTuple(*(column[number] for column in columns))

    def is_inside(self, number: int) -> bool:
        """Whether the topology contains both addresses of a 5-tuple."""
        return max(self._columns.src[number], self._columns.dst[number]) < self._nics

    def ends(self, number: int) -> tuple[str, str]:
        """Source and destination address of a 5-tuple."""
        return self.names[self._columns.src[number]], self.names[self._columns.dst[number]]

    def nics(self, number: int) -> tuple[str, str]:
        """The same, each NIC by the address of its first port; the topology contains both."""
        ports = self.router.layout.cluster.nic_ports
        src, dst = self._columns.src[number], self._columns.dst[number]
        return self.names[src - src % ports], self.names[dst - dst % ports]

    def reverse(self, tuples: NDArray[np.int32]) -> NDArray[np.int32]:
        """The 5-tuples of the opposite directions."""
        found, where = np.unique(tuples, return_inverse=True)
        back = [self._back(number) for number in found.tolist()]
        return np.array(back, np.int32)[where]

    def over_tcp(self, tuples: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Flags of TCP connections among ``tuples``; other training traffic is RoCE v2."""
        over: NDArray[np.bool_] = self.column("protocol")[tuples] == TCP
        return over

    def name(self, address: str) -> int:
        """Number of the name ``address``, whether the topology contains it or not."""
        if address not in self.names:
            self.names.append(address)
        return self.names.index(address)

    def port(self, *purpose: str | int) -> int:
        """A port of the dynamic range, drawn for one purpose."""
        low, high = DYNAMIC_PORTS
        return low + self._draws.number("port", *purpose) % (high - low)

    def column(self, name: str) -> NDArray[np.int64]:
        """One of :class:`Columns`, or a derived one, by 5-tuple.

        Derived are ``leaf_in`` and ``leaf_out`` (-1 where unknown), ``key`` (a hash), and
        ``routed`` (1 for a 5-tuple of a route).
        """
        if name not in self._arrays or len(self._arrays[name]) != len(self):
            derived = {"leaf_in": ("src",), "leaf_out": ("dst",)}
            if name == "key":
                self._arrays[name] = self._keys().astype(np.int64)
            elif name == "routed":
                self._arrays[name] = np.zeros(len(self), np.int64)
                self._arrays[name][[*self._routed]] = 1
            elif name in derived:
                self._arrays[name] = self._leaf(self.column(derived[name][0]))
            else:
                self._arrays[name] = np.array(getattr(self._columns, name), np.int64)
        return self._arrays[name]

    def _leaf(self, name: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leaf of each address; -1 where the topology does not contain it."""
        inside = name < self._nics
        leaf = self.router.layout.leaf_of_nic[np.where(inside, name, 0)]
        return np.where(inside, leaf, -1)

    def _keys(self) -> Words:
        ports = (self.column(part) for part in ("src_port", "dst_port", "protocol"))
        number = self._draws.number
        foreign = [number("address", name) for name in self.names[self._nics :]]
        names = np.array([*range(self._nics), *foreign], np.uint64)  # and all foreign addresses
        keys = hashed(names[self.column("src")], names[self.column("dst")], *ports)
        return keys[self._original]

    def _five_tuple(self, route: int) -> FiveTuple:
        r = self.router.routes
        src, dst = r.src[route], r.dst[route]
        if self._transports.get(r.job[route], self._transport) == "roce":
            return FiveTuple(src, dst, r.src_port[route], ROCE_PORT, UDP)
        again: tuple[str | int, ...] = (r.attempt[route],) if r.attempt[route] else ()
        if r.queue_pair[route]:
            again = (*again, "queue pair", r.queue_pair[route])
        whose = (r.job[route], r.kind[route], *again)  # both directions share one connection
        return FiveTuple(
            src, dst, self.port("tcp", *whose, src, dst), self.port("tcp", *whose, dst, src), TCP
        )

    def _opened(self, route: int) -> int:
        """The 5-tuple of a route that had none so far.

        Over TCP an answer may have used it first, with its own path; from now on it takes the path
        of the route, which carries the data.
        """
        r, tup = self.router.routes, self._five_tuple(route)
        path, latency_ns, owner = r.path[route], r.latency_ns[route], (r.job[route], r.kind[route])
        at = self._number.get(tup) if tup.protocol == TCP else None
        if at is None:
            return self._append(tup, path, latency_ns, owner)
        if at not in self._routed:  # two routes may draw the same ports
            self._columns.path[at], self._columns.latency_ns[at] = path, latency_ns
            self.owners[at] = owner
            self._arrays.clear()
        return at

    def _append(self, tup: FiveTuple, path: int, latency_ns: int, owner: Owner | None) -> int:
        number = len(self)
        self.owners.append(owner)
        self._original.append(number)
        c = self._columns
        for column, value in zip((c.src, c.dst, c.src_port, c.dst_port, c.protocol), tup,
                                 strict=True):  # fmt: skip
            column.append(value)
        c.path.append(path)
        c.latency_ns.append(latency_ns)
        for past in self._past:
            past.path.append(path)
        self._number.setdefault(tup, number)
        return number

    def _back(self, number: int) -> int:
        if number not in self._reverse:
            c = self._columns
            self._reverse[number] = self.add(
                FiveTuple(
                    c.dst[number], c.src[number], c.dst_port[number], c.src_port[number],
                    c.protocol[number],
                ),
                self.owners[number],
            )  # fmt: skip
        return self._reverse[number]

    def _path_of(self, tup: FiveTuple, failed: Failed | None = None) -> tuple[int, int]:
        """Path and latency, at present or while the uplinks ``failed`` were down.

        For a foreign address, the path beyond the first leaf is unknown.
        """
        if tup.dst < self._nics and tup.src < self._nics:
            return self.router.path_of(tup.src, tup.dst, tup.src_port, failed)
        layout = self.router.layout
        nic = min(tup.src, tup.dst)
        leaf = layout.leaves[layout.leaf_of_nic[nic]]
        hops = [leaf, UNKNOWN_HOP] if nic == tup.src else [UNKNOWN_HOP, leaf]
        return self.router.names.note("|".join(hops)), 0
