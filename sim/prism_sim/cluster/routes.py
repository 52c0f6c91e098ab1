"""The path of a connection: every switch hashes its 5-tuple.

A *route* is one queue pair between two NICs: source, destination, UDP source port (which
carries the queue pair's entropy in RoCE v2) and the path that equal-cost multi-path
hashing gives that 5-tuple. A connection keeps its route. If two busy connections hash onto one
uplink, they always share it, while another uplink may be idle. The switches hash again only when
an uplink fails or is repaired, over the working uplinks.

If NICs have several ports, each queue pair uses one port, at both ends. While the leaf of either
end is down, it uses another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from prism_common.errors import Problem, UserError
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.templates import Templates
from prism_sim.draws import Draws

ROCE_PORT = 4791
"""UDP destination port of RoCE v2 (InfiniBand Architecture Annex A17)."""
UDP = 17
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
        self.paths: list[str] = []
        self.links: list[list[int]] = []
        self._path_number: dict[tuple[int, ...], int] = {}
        self._text_number: dict[str, int] = {}
        self._known: dict[tuple[int, int, str, str, int], int] = {}
        self._template: list[int] = []
        self._relays: dict[int, list[int]] = {}
        self._draws = draws
        self._salts: dict[int, int] = {}
        self._failed: Failed = Counter()
        self._attempts: dict[str, int] = {}

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
        links, switches = self._walk(src, dst, port, failed)
        return self._path(switches), round(len(links) * self.layout.cluster.fabric.hop_latency_ns)

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

    def _hash_again(self, failed: Failed) -> dict[int, list[int]]:
        """Give every route the path that the switches choose without the ``failed`` uplinks."""
        r, moved = self.routes, {}
        for number, old in enumerate(self.links):
            ends = *self._ends(number, failed), r.src_port[number]
            links, switches = self._walk(*ends, failed, r.job[number])
            links = self._relays.get(number, []) + links
            if links != old:
                moved[number] = links, switches
        self._failed = failed  # every route has a path, so no error can follow
        for number, (links, switches) in moved.items():
            r.src[number], r.dst[number] = self._ends(number, failed)
            self.links[number] = links
            r.path[number] = self._path(switches)
            self.templates.relink(self._template[number], links)
        return {number: links for number, (links, _) in moved.items()}

    def _open(self, src: int, dst: int, job: str, kind: str, queue_pair: int) -> int:
        number = len(self.routes)
        low, high = DYNAMIC_PORTS
        attempt = self._attempts.get(job, 0)
        again = (attempt,) if attempt else ()
        draw = self._draws.number("source port", job, kind, src, dst, queue_pair, *again)
        port = low + draw % (high - low)
        sender, relay = self._relay(src, dst)
        ends = self._ports(sender, dst, queue_pair, self._failed)
        links, switches = self._walk(*ends, port, self._failed, job)
        cluster = self.layout.cluster
        latency_ns = len(links) * cluster.fabric.hop_latency_ns
        if relay:
            self._relays[number], links = relay, relay + links
            latency_ns += cluster.nvlink_latency_ns
        r = self.routes
        r.src.append(ends[0])
        r.dst.append(ends[1])
        r.src_port.append(port)
        r.path.append(self._path(switches))
        r.latency_ns.append(round(latency_ns))
        r.job.append(job)
        r.kind.append(kind)
        r.attempt.append(attempt)
        r.queue_pair.append(queue_pair)
        self.links.append(links)
        self._template.append(self.templates.add(links, route=number))
        return number

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
        spine_a = topology.spine_of(a, up)
        n_leaves = len(topology.leaves)
        if topology.pod_of(a) == topology.pod_of(b):
            middle: list[int] = []
            spine_b, crossed = spine_a, [n_leaves + spine_a]
        else:
            spine_b, middle, core = self._through_cores(spine_a, b, five_tuple, failed)
            crossed = [n_leaves + spine_a, core, n_leaves + spine_b]
        down = self._pick(n_leaves + spine_b, five_tuple, self._cables(b, spine_b, failed))
        links = [first, layout.up(a, up), *middle, layout.down(b, down), last]
        return links, (a, *crossed, b)

    def _through_cores(
        self, spine_a: int, leaf_b: int, five_tuple: tuple[int, ...], failed: Failed
    ) -> tuple[int, list[int], int]:
        """Spine of the other pod, the two links over a core, and the number of the core."""
        layout, topology = self.layout, self.layout.topology
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
            names = self.layout.switches
            self._path_number[switches] = self.note_path("|".join(names[s] for s in switches))
        return self._path_number[switches]
