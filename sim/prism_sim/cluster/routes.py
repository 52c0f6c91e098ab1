"""The path of a connection: every switch hashes its 5-tuple, or shares it among equal paths.

A *route* is one queue pair between two NICs: source, destination, UDP source port (which
carries the queue pair's entropy in RoCE v2) and the path that equal-cost multi-path
hashing gives that 5-tuple. A connection keeps its route. If two busy connections hash onto one
uplink, they always share it, while another uplink may be idle. The switches hash again only when
an uplink fails or is repaired, over the working uplinks.

Other kinds of routing split each message over all equal paths, or choose one for each message. Then
a route has all of these links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prism_common.errors import Problem, UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.merging import Spread
from prism_sim.cluster.spreading import Conditions, Spreading
from prism_sim.cluster.state import Int32s, Int64s
from prism_sim.cluster.templates import Templates
from prism_sim.draws import Draws

ROCE_PORT = 4791
"""UDP destination port of RoCE v2 (InfiniBand Architecture Annex A17)."""
UDP = 17
UNKNOWN_HOP = "?"
"""In a path, in place of a switch that is not known."""
DYNAMIC_PORTS = (49152, 65536)
"""Range of RoCE v2 source ports (RFC 6335, as Annex A17 recommends)."""

FAILED, ANY = "", "*"
"""Connections that may not use an uplink: all in both directions, or all that leave the leaf. The
name of a job stands for its connections that leave the leaf."""
Failed = Counter[tuple[int, int, str]]
"""Failed uplinks, by leaf, number and connections, with the number of their active faults."""

_WORD = (1 << 64) - 1


def mix(*words: int) -> int:
    """Hash integers to 64 bits, as a switch hashes a 5-tuple (SplitMix64's finalizer)."""
    state = 0x9E3779B97F4A7C15
    for word in words:
        state = (state ^ word) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state


@dataclass
class Routes:
    """All routes in use, as columns; a route's number is its row, and its template.

    ``job`` and ``kind`` are for the truth only; no record has them. ``attempt`` is the number of
    restarts of the job before it opened the connection.
    """

    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)
    src_port: list[int] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    job: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)
    queue_pair: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.src)


Crossed = tuple[tuple[int, ...], ...]
"""The switches between two leaves on each of several ways."""


class Way(NamedTuple):
    """How a route leads from one NIC to another.

    Attributes
    ----------
    links : directed links; all of them, where there are several paths.
    switches : that it crosses (leaves 0, 1, ..., then spines, then cores); UNKNOWN between the
        leaves if a message is split.
    crossed : switches between the leaves on each path, where there are several.
    spread : of a message that is split.
    shares : the part of such a message on each path.
    paths : of a message that chooses one: the links of each between the leaves, by uplink of the
        first leaf; none of a path that has failed.
    """

    links: list[int]
    switches: tuple[int, ...]
    crossed: Crossed = ()
    spread: Spread | None = None
    shares: tuple[float, ...] = ()
    paths: tuple[tuple[int, ...], ...] = ()

    def equals(self, other: Way) -> bool:
        """Whether both lead over the same links."""
        if self.paths is not other.paths and self.paths != other.paths:
            return False
        if self.links != other.links:
            return False
        if self.spread is None or other.spread is None:
            return self.spread is other.spread
        return self.spread is other.spread or self.spread.equals(other.spread)


UNKNOWN = -1
"""In place of a switch that is another one for every packet."""


class Router:
    """Finds and remembers the route of every connection.

    Parameters
    ----------
    layout : the cluster.
    templates : the table that gets the links of routes.
    draws : for source ports and the switches' hash salts.
    """

    def __init__(self, layout: Layout, templates: Templates, draws: Draws) -> None:
        self.layout = layout
        self.templates = templates
        self.routes = Routes()
        self.paths: list[str] = []
        self.conditions = Conditions()
        self._ways: list[Way] = []
        self._path_number: dict[tuple[int, ...], int] = {}
        self._text_number: dict[str, int] = {}
        self._known: dict[tuple[int, int, str, str, int], int] = {}
        self._template: list[int] = []
        self._draws = draws
        self._salts: dict[int, int] = {}
        self._failed: Failed = Counter()
        self._attempts: dict[str, int] = {}
        routing = layout.cluster.fabric.routing
        splits = routing.shares(np.ones(1), ()) is not None
        self._choice = routing.choice
        self._spreading = Spreading(layout, routing, self.conditions) if splits else None
        self._spreads: dict[object, tuple[Spread, Crossed, tuple[float, ...]]] = {}
        self._split_paths: dict[int, Way] = {}
        self._numbers_of: dict[int, list[int]] = {}
        self._open_paths: dict[object, Way] = {}
        self._chosen = np.zeros((1024 if self._choice else 0, layout.cluster.uplinks), np.int32)

    @property
    def links(self) -> list[list[int]]:
        """Directed links of each route; all of them, where it has several paths."""
        return [way.links for way in self._ways]

    def links_of(self, route: int) -> list[int]:
        """Directed links of one route."""
        return self._ways[route].links

    @property
    def splits(self) -> bool:
        """Whether messages are split over equal paths."""
        return self._spreading is not None

    @property
    def shares_messages(self) -> bool:
        """Whether a connection uses several paths, at once or in turn."""
        return self.splits or self.has_choice

    @property
    def has_choice(self) -> bool:
        """Whether messages choose one of several paths."""
        return self._choice is not None

    def route(self, src_nic: int, dst_nic: int, job: str, kind: str, queue_pair: int = 0) -> int:
        """The route between two NICs that ``job`` uses for traffic of ``kind``."""
        key = (src_nic, dst_nic, job, kind, queue_pair)
        if key not in self._known:
            self._known[key] = self._open(*key)
        return self._known[key]

    def renew(self, job: str) -> None:
        """Replace all connections of ``job`` by new ones, with new ports."""
        self._attempts[job] = self._attempts.get(job, 0) + 1
        self._known = {key: route for key, route in self._known.items() if key[2] != job}

    def template(self, route: int) -> int:
        """The template of a single flow on ``route``, which has a record."""
        return self._template[route]

    def failed(self) -> Failed:
        """The uplinks that have failed now."""
        return self._failed.copy()

    def path_of(
        self, src_nic: int, dst_nic: int, port: int, failed: Failed | None = None
    ) -> tuple[int, int]:
        """Path (its number) and latency [ns] of a 5-tuple that is not a route of a job.

        ``failed`` are the failed uplinks at that time; default: those that have failed now.
        """
        failed = self._failed if failed is None else failed
        links, switches = self._walk(src_nic, dst_nic, port, failed)
        latency_ns = round(len(links) * self.layout.cluster.fabric.hop_latency_ns)
        if self._spreading is not None and len(switches) > 1:
            return self._path_of(self._split(src_nic, dst_nic, failed, FAILED)), latency_ns
        return self._path(switches), latency_ns

    def path_text(self, numbers: Int64s) -> Int64s:
        """The first number of the text of each path; a path that is split may have several."""
        first = np.arange(len(self.paths))
        for number in self._split_paths:
            first[number] = self._text_number[self.paths[number]]
        known: Int64s = np.where(numbers >= 0, first[numbers], numbers)
        return known

    def parts_of(self, path: int) -> list[tuple[int, float]]:
        """The paths over which the path with a number is split, and the share of each."""
        way = self._split_paths.get(path)
        if way is None:
            return [(path, 1.0)]
        first, last = way.switches[0], way.switches[-1]
        paths = [self._path((first, *switches, last)) for switches in way.crossed]
        return list(zip(paths, way.shares, strict=True))

    def chosen_paths(self, routes: Int32s, chosen: Int32s, own: Int64s) -> Int64s:
        """Path of each message: ``chosen`` is its number of those of its route, 0 for ``own``."""
        found: Int64s = np.where(chosen > 0, self._chosen[routes, chosen - 1], own)
        return found

    def note_path(self, path: str) -> int:
        """The number of the path with this text."""
        if path not in self._text_number:
            self._text_number[path] = len(self.paths)
            self.paths.append(path)
        return self._text_number[path]

    def fail(self, leaf: int, uplinks: Sequence[int], whose: str = FAILED) -> dict[int, list[int]]:
        """Fail uplinks of a leaf; return the new links of every route that changes.

        ``whose`` names the affected connections: all (FAILED), all that leave the leaf (ANY), or
        those of a job that leave it.

        Raises
        ------
        UserError : a connection would have no path; nothing is changed then.
        """
        return self._hash_again(self._failed + Counter((leaf, up, whose) for up in uplinks))

    def repair(
        self, leaf: int, uplinks: Sequence[int], whose: str = FAILED
    ) -> dict[int, list[int]]:
        """Undo one :meth:`fail`; return the new links of every route that changes."""
        return self._hash_again(self._failed - Counter((leaf, up, whose) for up in uplinks))

    def renew_shares(self) -> dict[int, list[int]]:
        """Split messages as ``conditions`` are now; return the links of routes that change."""
        self._spreads.clear()
        return self._hash_again(self._failed)

    def _hash_again(self, failed: Failed) -> dict[int, list[int]]:
        """Give every route the path that the switches choose without the ``failed`` uplinks."""
        r, moved = self.routes, {}
        for number, old in enumerate(self._ways):
            ends = r.src[number], r.dst[number], r.src_port[number]
            way = self._way(*ends, failed, r.job[number])
            if not way.equals(old):
                moved[number] = way
        self._failed = failed  # every route has a path, so no error can follow
        for number, way in moved.items():
            self._ways[number] = way
            r.path[number] = self._path_of(way)
            self._relink(number, way)
        return {number: way.links for number, way in moved.items()}

    def _relink(self, route: int, way: Way) -> None:
        """Let ``route`` lead along ``way`` from now on."""
        template = self._template[route]
        if way.spread is not None:
            self.templates.respread(template, (way.links[0], way.links[-1]), way.spread)
        elif way.paths:
            repeats = self.conditions.repeats
            often = [1.0 + sum(repeats.get(link, 0.0) for link in path) for path in way.paths]
            self.templates.relink_paths(template, _whole(way), often)
            self._note_chosen(route, way)
        else:
            self.templates.relink(template, way.links)

    def _open(self, src: int, dst: int, job: str, kind: str, queue_pair: int) -> int:
        number = len(self.routes)
        low, high = DYNAMIC_PORTS
        attempt = self._attempts.get(job, 0)
        again = (attempt,) if attempt else ()
        draw = self._draws.number("source port", job, kind, src, dst, queue_pair, *again)
        port = low + draw % (high - low)
        way = self._way(src, dst, port, self._failed, job)
        hop_ns = self.layout.cluster.fabric.hop_latency_ns
        r = self.routes
        r.src.append(src)
        r.dst.append(dst)
        r.src_port.append(port)
        r.path.append(self._path_of(way))
        r.latency_ns.append(round((len(way.switches) + 1) * hop_ns))
        r.job.append(job)
        r.kind.append(kind)
        r.attempt.append(attempt)
        r.queue_pair.append(queue_pair)
        self._ways.append(way)
        self._template.append(self._register(number, way))
        if way.paths:
            self._note_chosen(number, way)
            if self.conditions.repeats or not all(way.paths):
                self._relink(number, way)
        return number

    def _register(self, route: int, way: Way) -> int:
        """The template of a new ``route``."""
        templates = self.templates
        if way.spread is not None:
            return templates.add_spread((way.links[0], way.links[-1]), way.spread, route)
        if not way.paths or self._choice is None:
            return templates.add(way.links, route=route)
        key = self._draws.number("path choice", self.routes.src_port[route], route) % (2**31 - 1)
        whole = _whole(way)
        some = next(path for path in whole if path)
        return templates.add_choice([path or some for path in whole], route, *self._choice, key)

    def _note_chosen(self, route: int, way: Way) -> None:
        """Note the path in the records of messages on each path of ``way``; a failed one stays."""
        if route >= len(self._chosen):
            self._chosen = np.concatenate((self._chosen, np.zeros_like(self._chosen)))
        first, last = way.switches[0], way.switches[-1]
        row = self._chosen[route]
        for number, (switches, links) in enumerate(zip(way.crossed, way.paths, strict=True)):
            if links:
                row[number] = self._path((first, *switches, last))

    def _way(self, src: int, dst: int, port: int, failed: Failed, job: str) -> Way:
        """How a connection leads from ``src`` to ``dst`` without the ``failed`` uplinks."""
        links, switches = self._walk(src, dst, port, failed, job)
        if len(switches) == 1:
            return Way(links, switches)
        if self._spreading is not None:
            return self._split(src, dst, failed, job)
        if self._choice is not None:
            return self._all_paths(src, dst, switches, failed, job)
        return Way(links, switches)

    def _split(self, src: int, dst: int, failed: Failed, job: str) -> Way:
        """The way of messages that are split over all equal paths."""
        layout, topology = self.layout, self.layout.topology
        a, b = int(topology.leaf_of_nic[src]), int(topology.leaf_of_nic[dst])
        whose = job if any(name == job for _, _, name in failed) else FAILED
        key = (a, b, whose, frozenset(failed))
        if key not in self._spreads:
            assert self._spreading is not None  # only asked for then
            self._spreads[key] = self._spreading.between(
                a, b, self._uplinks_towards(a, b, failed, job),
                lambda spine: self._cables(b, spine, failed),
            )  # fmt: skip
        spread, crossed, shares = self._spreads[key]
        links = [layout.nic_out(src), *spread.links, layout.nic_in(dst)]
        between = (UNKNOWN,) * (len(spread.legs) - 1)
        return Way(links, (a, *between, b), crossed, spread, shares)

    def _all_paths(
        self, src: int, dst: int, switches: tuple[int, ...], failed: Failed, job: str
    ) -> Way:
        """The way of messages that choose one path: one for each uplink of the first leaf.

        Behind the uplink, all messages between two leaves take one path, by a hash of the leaves.
        """
        layout, (a, b) = self.layout, (switches[0], switches[-1])
        whose = job if any(name == job for _, _, name in failed) else FAILED
        key = (a, b, whose, frozenset(failed))
        if key not in self._open_paths:
            usable = set(self._uplinks_towards(a, b, failed, job))
            crossed: list[tuple[int, ...]] = [()] * layout.cluster.uplinks
            paths: list[tuple[int, ...]] = [()] * layout.cluster.uplinks
            for up in usable:
                onward, crossed[up] = self._onward(a, b, up, (a, b, up), failed)
                paths[up] = (layout.up(a, up), *onward)
            every = list(dict.fromkeys(link for path in paths for link in path))
            self._open_paths[key] = Way(every, (a, b), tuple(crossed), paths=tuple(paths))
        way = self._open_paths[key]
        links = [layout.nic_out(src), *way.links, layout.nic_in(dst)]
        return way._replace(links=links, switches=switches)

    def _walk(
        self, src: int, dst: int, port: int, failed: Failed, job: str = FAILED
    ) -> tuple[list[int], tuple[int, ...]]:
        """Directed links of a route, and the switches it crosses (leaves 0, 1, ..., then spines).

        ``failed`` are the failed uplinks, for ``job`` or for all.
        """
        layout, topology = self.layout, self.layout.topology
        a, b = int(topology.leaf_of_nic[src]), int(topology.leaf_of_nic[dst])
        first, last = layout.nic_out(src), layout.nic_in(dst)
        if a == b:
            return [first, last], (a,)
        five_tuple = (src, dst, port, ROCE_PORT, UDP)
        up = self._pick(a, five_tuple, self._uplinks_towards(a, b, failed, job))
        onward, crossed = self._onward(a, b, up, five_tuple, failed)
        return [first, layout.up(a, up), *onward, last], (a, *crossed, b)

    def _onward(
        self, a: int, b: int, up: int, five_tuple: tuple[int, ...], failed: Failed
    ) -> tuple[list[int], tuple[int, ...]]:
        """Links after uplink ``up`` of leaf ``a`` to leaf ``b``, and the switches between both."""
        layout, topology = self.layout, self.layout.topology
        spine_a = topology.spine_of(a, up)
        n_leaves = len(topology.leaves)
        if topology.pod_of(a) == topology.pod_of(b):
            middle: list[int] = []
            spine_b = spine_a
            crossed: tuple[int, ...] = (n_leaves + spine_a,)
        else:
            spine_b, middle, core = self._through_cores(spine_a, b, five_tuple, failed)
            crossed = (n_leaves + spine_a, core, n_leaves + spine_b)
        down = self._pick(n_leaves + spine_b, five_tuple, self._cables(b, spine_b, failed))
        return [*middle, layout.down(b, down)], crossed

    def _through_cores(
        self, spine_a: int, leaf_b: int, five_tuple: tuple[int, ...], failed: Failed
    ) -> tuple[int, list[int], int]:
        """Spine of the other pod, the two links over a core, and the number of the core."""
        layout, topology = self.layout, self.layout.topology
        switch = len(topology.leaves) + spine_a
        up = self._hash(switch, five_tuple) % topology.core_uplinks
        far_end = topology.core_of(up)
        core = len(topology.leaves) + len(topology.spines) + far_end
        first = topology.pod_of(leaf_b) * topology.spines_per_pod
        pod = range(first, first + topology.spines_per_pod)
        near = [spine for spine in pod if self._cables(leaf_b, spine, failed)]
        spine_b = self._pick(core, five_tuple, near)
        down = self._pick(core, (*five_tuple, 1), topology.uplinks_to_core(far_end))
        return spine_b, [layout.core_up(spine_a, up), layout.core_down(spine_b, down)], core

    def _uplinks_towards(self, leaf: int, to: int, failed: Failed, job: str) -> Sequence[int]:
        """Uplinks of ``leaf`` that reach leaf ``to`` and that ``job`` may use."""
        topology, uplinks = self.layout.topology, range(self.layout.cluster.uplinks)
        if not failed:
            return uplinks
        apart = topology.pod_of(leaf) != topology.pod_of(to)
        arrivals = [topology.spine_of(to, u) for u in uplinks if not failed[to, u, FAILED]]
        concerned = {FAILED, ANY, job}
        left = [u for u in uplinks if not any(failed[leaf, u, whose] for whose in concerned)]
        left = [u for u in left if apart or topology.spine_of(leaf, u) in arrivals]
        if not left or not arrivals:
            names = self.layout.leaves
            what = f"no uplink is left by which {names[leaf]} could reach {names[to]}"
            raise UserError(Problem(what, "faults", "let fewer uplinks fail"))
        return left

    def _cables(self, leaf: int, spine: int, failed: Failed) -> Sequence[int]:
        """Uplinks of ``leaf`` that work and lead to ``spine`` of its own pod."""
        every = self.layout.topology.uplinks_to_spine(spine)
        return [u for u in every if not failed[leaf, u, FAILED]] if failed else every

    def _pick(self, switch: int, five_tuple: tuple[int, ...], choices: Sequence[int]) -> int:
        """The choice of the switch's hash among equal ones."""
        return choices[self._hash(switch, five_tuple) % len(choices)]

    def _hash(self, switch: int, five_tuple: tuple[int, ...]) -> int:
        """The salt of a switch's hash; without it, all switches would choose alike."""
        if switch not in self._salts:
            self._salts[switch] = self._draws.number("ecmp salt", switch)
        return mix(self._salts[switch], *five_tuple)

    def _path(self, switches: tuple[int, ...]) -> int:
        if switches not in self._path_number:
            names = [UNKNOWN_HOP if s == UNKNOWN else self.layout.switches[s] for s in switches]
            self._path_number[switches] = self.note_path("|".join(names))
        return self._path_number[switches]

    def _path_of(self, way: Way) -> int:
        """The number of the path of ``way``; one that is split in a new way has a new number."""
        number = self._path(way.switches)
        if way.spread is None:
            return number
        numbers = self._numbers_of.setdefault(number, [number])
        for known in numbers:
            other = self._split_paths.setdefault(known, way)
            if (other.crossed, other.shares) == (way.crossed, way.shares):
                return known
        self.paths.append(self.paths[number])
        numbers.append(len(self.paths) - 1)
        self._split_paths[numbers[-1]] = way
        return numbers[-1]


def _whole(way: Way) -> list[tuple[int, ...]]:
    """The links of each path of ``way`` from NIC to NIC; none of a path that has failed."""
    return [(way.links[0], *path, way.links[-1]) if path else () for path in way.paths]
