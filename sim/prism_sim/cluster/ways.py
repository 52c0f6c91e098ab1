"""How connections lead through the network: the switches' hashes, and all equal paths.

A way is found from the two ports, the 5-tuple, and the uplinks and leaves that have failed. It has
one path, or all of the equal ones, as the kind of routing needs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from prism_common.errors import Problem, UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.merging import Spread
from prism_sim.cluster.spreading import Conditions, Spreading
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
WHOLE = -1
"""In place of the number of an uplink: the whole leaf is down, with all of its ports."""
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


def _between(a: int, b: int, failed: Failed, job: str) -> object:
    """What paths from leaf ``a`` to leaf ``b`` depend on: the job too, if uplinks failed for it."""
    whose = job if any(name == job for _, _, name in failed) else FAILED
    return a, b, whose, frozenset(failed)


class Ways:
    """Finds the ways of connections.

    Parameters
    ----------
    layout : the cluster.
    draws : for the salts of the switches' hashes.

    Attributes
    ----------
    choice : how messages choose one of several paths; None if they do not.
    conditions : of links, on which the shares of split messages depend.
    """

    def __init__(self, layout: Layout, draws: Draws) -> None:
        self._layout, self._draws = layout, draws
        self._salts: dict[int, int] = {}
        routing = layout.cluster.fabric.routing
        self.conditions = Conditions()
        self.choice = routing.choice
        self._spreading = Spreading(layout, routing, self.conditions) if routing.splits else None
        self._spreads: dict[object, tuple[Spread, Crossed, tuple[float, ...]]] = {}
        self._open_paths: dict[object, Way] = {}

    @property
    def splits(self) -> bool:
        """Whether messages are split over equal paths."""
        return self._spreading is not None

    def forget_shares(self) -> None:
        """Compute shares again; the conditions have changed."""
        self._spreads.clear()

    def find(self, src: int, dst: int, port: int, failed: Failed, job: str) -> Way:
        """How a connection of ``job`` leads from port to port, without what has ``failed``."""
        way = self.hashed_or_split(src, dst, port, failed, job)
        if len(way.switches) == 1 or self.choice is None or way.spread is not None:
            return way
        return self._all_paths(src, dst, way.switches, failed, job)

    def hashed_or_split(
        self, src: int, dst: int, port: int, failed: Failed, job: str = FAILED
    ) -> Way:
        """The same for traffic that does not choose: it takes the path of its hash."""
        links, switches = self._walk(src, dst, port, failed, job)
        if len(switches) > 1 and self._spreading is not None:
            return self._split(src, dst, failed, job)
        return Way(links, switches)

    def _split(self, src: int, dst: int, failed: Failed, job: str) -> Way:
        """The way of messages that are split over all equal paths."""
        layout, topology = self._layout, self._layout.topology
        a, b = int(topology.leaf_of_nic[src]), int(topology.leaf_of_nic[dst])
        key = _between(a, b, failed, job)
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
        layout, (a, b) = self._layout, (switches[0], switches[-1])
        key = _between(a, b, failed, job)
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
        layout, topology = self._layout, self._layout.topology
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
        layout, topology = self._layout, self._layout.topology
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
        layout, topology = self._layout, self._layout.topology
        switch = len(topology.leaves) + spine_a
        up = self._hash(switch, five_tuple) % topology.core_uplinks
        far_end = topology.core_of(spine_a, up)
        core = len(topology.leaves) + len(topology.spines) + far_end
        first = topology.pod_of(leaf_b) * topology.spines_per_pod
        pod = range(first, first + topology.spines_per_pod)
        near = [spine for spine in pod if self._cables(leaf_b, spine, failed)]
        spine_b = self._pick(core, five_tuple, near)
        down = self._pick(core, (*five_tuple, 1), topology.uplinks_to_core(far_end))
        return spine_b, [layout.core_up(spine_a, up), layout.core_down(spine_b, down)], core

    def _uplinks_towards(self, leaf: int, to: int, failed: Failed, job: str) -> Sequence[int]:
        """Uplinks of ``leaf`` that reach leaf ``to`` and that ``job`` may use."""
        topology, uplinks = self._layout.topology, range(self._layout.cluster.uplinks)
        if not failed:
            return uplinks
        apart = topology.pod_of(leaf) != topology.pod_of(to)
        arrivals = [topology.spine_of(to, u) for u in uplinks if not failed[to, u, FAILED]]
        concerned = {FAILED, ANY, job}
        left = [u for u in uplinks if not any(failed[leaf, u, whose] for whose in concerned)]
        left = [u for u in left if apart or topology.spine_of(leaf, u) in arrivals]
        if not left or not arrivals:
            names = self._layout.leaves
            what = f"no uplink is left by which {names[leaf]} could reach {names[to]}"
            raise UserError(Problem(what, "faults", "let fewer uplinks fail"))
        return left

    def _cables(self, leaf: int, spine: int, failed: Failed) -> Sequence[int]:
        """Uplinks of ``leaf`` that work and lead to ``spine`` of its own pod."""
        every = self._layout.topology.uplinks_to_spine(spine)
        return [u for u in every if not failed[leaf, u, FAILED]] if failed else every

    def _pick(self, switch: int, five_tuple: tuple[int, ...], choices: Sequence[int]) -> int:
        """The choice of the switch's hash among equal ones."""
        return choices[self._hash(switch, five_tuple) % len(choices)]

    def _hash(self, switch: int, five_tuple: tuple[int, ...]) -> int:
        """The salt of a switch's hash; without it, all switches would choose alike."""
        if switch not in self._salts:
            self._salts[switch] = self._draws.number("ecmp salt", switch)
        return mix(self._salts[switch], *five_tuple)
