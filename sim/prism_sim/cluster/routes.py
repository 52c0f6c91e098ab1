"""The path of a connection: every switch hashes its 5-tuple, or shares it among equal paths.

A *route* is one queue pair between two NICs: source, destination, UDP source port (which
carries the queue pair's entropy in RoCE v2) and the path that equal-cost multi-path
hashing gives that 5-tuple. A connection keeps its route. If two busy connections hash onto one
uplink, they always share it, while another uplink may be idle. The switches hash again only when
an uplink fails or is repaired, over the working uplinks.

Other kinds of routing split each message over all equal paths, or choose one for each message. Then
a route has all of these links.

If NICs have several ports, each queue pair uses one port, at both ends. While the leaf of either
end is down, it uses another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prism_common.errors import Problem, UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.path_names import PathNames
from prism_sim.cluster.spreading import Conditions
from prism_sim.cluster.state import Int32s, Int64s
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.ways import DYNAMIC_PORTS, FAILED, WHOLE, Failed, Way, Ways, mix
from prism_sim.draws import Draws


@dataclass
class Routes:
    """All routes in use, as columns; a route's number is its row, and its template.

    ``src`` and ``dst`` are ports of NICs: those that the route uses now.
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
        self.names = PathNames(layout.switches)
        self._finder = Ways(layout, draws)
        self._ways: list[Way] = []
        self._known: dict[tuple[int, int, str, str, int], int] = {}
        self._template: list[int] = []
        self._relays: dict[int, list[int]] = {}
        self._draws = draws
        self._failed: Failed = Counter()
        self._attempts: dict[str, int] = {}
        uplinks = layout.cluster.uplinks if self._finder.choice else 0
        self._chosen = np.zeros((1024, uplinks), np.int32)
        self._chosen_before: list[tuple[int, Int32s]] = []

    @property
    def conditions(self) -> Conditions:
        """Of links; after a change, call :meth:`renew_shares`."""
        return self._finder.conditions

    @property
    def paths(self) -> list[str]:
        """Texts of all paths, by number."""
        return self.names.texts

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
        return self._finder.splits

    @property
    def shares_messages(self) -> bool:
        """Whether a connection uses several paths, at once or in turn."""
        return self.splits or self.has_choice

    @property
    def has_choice(self) -> bool:
        """Whether messages choose one of several paths."""
        return self._finder.choice is not None

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
        src, dst = self._working_ports(src_nic, dst_nic, failed)
        way = self._finder.hashed_or_split(src, dst, port, failed)
        hop_ns = self.layout.cluster.fabric.hop_latency_ns
        return self.names.of_way(way), round((len(way.switches) + 1) * hop_ns)

    def keep_chosen(self, now_ns: int) -> None:
        """Keep the paths that messages choose for those that began before ``now_ns``."""
        if self.has_choice:
            self._chosen_before.append((now_ns, self._chosen.copy()))

    def chosen_paths(self, routes: Int32s, chosen: Int32s, own: Int64s, start_ns: Int64s) -> Int64s:
        """Path of each message: ``chosen`` is its number of those of its route, 0 for ``own``."""
        found: Int64s = np.where(chosen > 0, self._chosen[routes, chosen - 1], own)
        for until_ns, before in reversed(self._chosen_before):
            early = np.flatnonzero((start_ns < until_ns) & (chosen > 0) & (routes < len(before)))
            found[early] = before[routes[early], chosen[early] - 1]
        return found

    def fail(self, leaf: int, uplinks: Sequence[int], whose: str = FAILED) -> dict[int, list[int]]:
        """Fail uplinks of a leaf; return the new links of every route that changes.

        ``whose`` names the affected connections: all (FAILED), all that leave the leaf (ANY), or
        those of a job that leave it.

        Raises
        ------
        UserError : a connection would have no path; nothing is changed then.
        """
        return self._hash_again(self._failed + Counter((leaf, up, whose) for up in uplinks))

    def fail_leaves(self, leaves: Sequence[int]) -> dict[int, list[int]]:
        """Fail whole leaves; return the new links of every route that changes.

        Raises
        ------
        UserError : a NIC would have no port; nothing is changed then.
        """
        return self._hash_again(self._failed + Counter((leaf, WHOLE, FAILED) for leaf in leaves))

    def repair_leaves(self, leaves: Sequence[int]) -> dict[int, list[int]]:
        """Undo one :meth:`fail_leaves`; return the new links of every route that changes."""
        return self._hash_again(self._failed - Counter((leaf, WHOLE, FAILED) for leaf in leaves))

    def repair(
        self, leaf: int, uplinks: Sequence[int], whose: str = FAILED
    ) -> dict[int, list[int]]:
        """Undo one :meth:`fail`; return the new links of every route that changes."""
        return self._hash_again(self._failed - Counter((leaf, up, whose) for up in uplinks))

    def renew_shares(self) -> dict[int, list[int]]:
        """Split messages as ``conditions`` are now; return the links of routes that change."""
        self._finder.forget_shares()
        return self._hash_again(self._failed)

    def _hash_again(self, failed: Failed) -> dict[int, list[int]]:
        """Give every route the path that the switches choose without the ``failed`` uplinks."""
        r, moved = self.routes, {}
        for number, old in enumerate(self._ways):
            ends = *self._ends(number, failed), r.src_port[number]
            way = self._finder.find(*ends, failed, r.job[number])
            way = way._replace(links=self._relays.get(number, []) + way.links)
            if not way.equals(old):
                moved[number] = way
        self._failed = failed  # every route has a path, so no error can follow
        for number, way in moved.items():
            r.src[number], r.dst[number] = self._ends(number, failed)
            self._ways[number] = way
            r.path[number] = self.names.of_way(way)
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
        sender, relay = self._relay(src, dst)
        ends = self._ports(sender, dst, queue_pair, self._failed)
        way = self._finder.find(*ends, port, self._failed, job)
        cluster = self.layout.cluster
        latency_ns = (len(way.switches) + 1) * cluster.fabric.hop_latency_ns
        if relay:
            self._relays[number] = relay
            way = way._replace(links=relay + way.links)
            latency_ns += cluster.nvlink_latency_ns
        r = self.routes
        r.src.append(ends[0])
        r.dst.append(ends[1])
        r.src_port.append(port)
        r.path.append(self.names.of_way(way))
        r.latency_ns.append(round(latency_ns))
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
        if not way.paths or self._finder.choice is None:
            return templates.add(way.links, route=route)
        key = self._draws.number("path choice", self.routes.src_port[route], route) % (2**31 - 1)
        whole = _whole(way)
        some = next(path for path in whole if path)
        return templates.add_choice(
            [path or some for path in whole], route, *self._finder.choice, key
        )

    def _note_chosen(self, route: int, way: Way) -> None:
        """Note the path in the records of messages on each path of ``way``; a failed one stays."""
        if route >= len(self._chosen):
            self._chosen = np.concatenate((self._chosen, np.zeros_like(self._chosen)))
        first, last = way.switches[0], way.switches[-1]
        row = self._chosen[route]
        for number, (switches, links) in enumerate(zip(way.crossed, way.paths, strict=True)):
            if links:
                row[number] = self.names.of((first, *switches, last))

    def _relay(self, src: int, dst: int) -> tuple[int, list[int]]:
        """The NIC that sends what is for NIC ``dst``, and the links from NIC ``src`` to it."""
        layout = self.layout
        sender = layout.sender(src, dst)
        if sender == src:
            return src, []
        return sender, layout.nvlink(layout.gpu_of_nic(src), layout.gpu_of_nic(sender))

    def _ends(self, route: int, failed: Failed) -> tuple[int, int]:
        """The ports between which a route leads without the ``failed`` leaves."""
        r, ports = self.routes, self.layout.cluster.nic_ports
        src, dst = r.src[route], r.dst[route]
        return self._ports(src - src % ports, dst - dst % ports, r.queue_pair[route], failed)

    def _ports(self, src: int, dst: int, queue_pair: int, failed: Failed) -> tuple[int, int]:
        """The ports that a queue pair between two NICs uses: the same one at both ends."""
        ports = self.layout.cluster.nic_ports
        if ports == 1:
            return src, dst
        port = (queue_pair + mix(src, dst)) % ports
        return self._working_ports(src + port, dst + port, failed)

    def _working_ports(self, src: int, dst: int, failed: Failed) -> tuple[int, int]:
        """These two ports if their leaves work, else two others that work, taken in turn."""
        ports, leaf = self.layout.cluster.nic_ports, self.layout.topology.leaf_of_nic
        if ports == 1 or not failed:
            return src, dst

        def works(*ends: int) -> bool:
            return not any(failed[int(leaf[end]), WHOLE, FAILED] for end in ends)

        own = src % ports
        first, last = src - own, dst - dst % ports
        left = [port for port in range(ports) if works(first + port, last + port)]
        if not left:
            names = self.layout.addresses
            what = f"no port is left by which {names[src]} could reach {names[dst]}"
            raise UserError(Problem(what, "faults", "let fewer leaves fail"))
        down = sum(port not in left for port in range(own))
        port = own if own in left else left[down % len(left)]
        return first + port, last + port


def _whole(way: Way) -> list[tuple[int, ...]]:
    """The links of each path of ``way`` from NIC to NIC; none of a path that has failed."""
    return [(way.links[0], *path, way.links[-1]) if path else () for path in way.paths]
