"""The network of a case: one namespace a server and a switch, joined by pairs of virtual cables.

Names, addresses and links are those of the simulated cluster. Leaves spread flows over spines by
a hash of the 5-tuple. Both ends of a cable are shaped by a token bucket; the rates of a scenario
are those of payload, so Ethernet gets 1514 bytes where payload gets 1448.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import Any

from lab.processes import inside

ETHERNET_SHARE = 1514 / 1448
QUEUE_MS = 100
SUPER_PACKET_BYTES = 16_384
"""Largest packet that a host hands to its NIC, which cuts it to the wire's size; less than the
token bucket's burst, or the kernel would cut it. As packets of 1500 bytes it costs ten times as
much to capture."""
GATEWAY = "169.254.1.1"
RESOLVER, RESOLVER_ADDRESS = "resolver", "10.255.255.53"
MANAGEMENT = "192.168.255"
COLLECTOR_ADDRESS = f"{MANAGEMENT}.1"
SETTINGS = {
    "net.ipv4.ip_forward": 1,
    "net.ipv4.fib_multipath_hash_policy": 1,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
    "net.ipv4.tcp_congestion_control": "reno",
    "net.ipv6.conf.all.disable_ipv6": 1,
    "net.ipv6.conf.default.disable_ipv6": 1,
}


def run(command: list[str], given: str | None = None) -> str:
    """Run a command; its failure is an exception that shows what it wrote."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        message = (done.stderr or done.stdout).strip()
        raise RuntimeError(f"{' '.join(command)} failed: {message}")
    return done.stdout


@dataclass(frozen=True)
class Port:
    """One end of a cable: a device in the namespace of a server or a switch."""

    owner: str
    device: str


@dataclass(frozen=True)
class Cable:
    """A cable and its rate, as Ethernet counts it [bit/s]."""

    a: Port
    b: Port
    rate_bps: float


@dataclass
class Network:
    """Builds the namespaces of a topology (``topology.json``), and changes rates later.

    Attributes
    ----------
    cables : by the names of both ends, in the topology's words (an address or a switch).
    server_of : server by address.
    """

    topology: dict[str, Any]
    burst_bytes: int
    cables: dict[tuple[str, str], Cable] = field(default_factory=dict)
    server_of: dict[str, str] = field(default_factory=dict)
    _commands: dict[str, list[str]] = field(default_factory=dict)

    @property
    def switches(self) -> list[str]:
        return [one["name"] for one in self.topology["switches"]]

    @property
    def leaves(self) -> dict[str, list[str]]:
        """Addresses below each leaf."""
        below: dict[str, list[str]] = {}
        for end in self.topology["endpoints"]:
            below.setdefault(end["switch"], []).append(end["address"])
        return below

    def build(self) -> None:
        """Make all namespaces, cables, addresses and routes."""
        self.server_of = {e["address"]: e["server"] for e in self.topology["endpoints"]}
        for name in [*self.server_of.values(), *self.switches, RESOLVER]:
            run(["ip", "netns", "add", name])
            words = [f"{key}={value}" for key, value in SETTINGS.items()]
            run([*inside(name), "sysctl", "-q", "-w", *words])
            self._do(name, "link set lo up")
        for number, link in enumerate(self.topology["links"]):
            self._cable(number, link["a"], link["b"], link["gbps"])
        self._resolver()
        self._management()
        for name, lines in self._commands.items():
            run(["ip", "-n", name, "-batch", "-"], "\n".join(lines) + "\n")
        for cable in self.cables.values():
            self._shape(cable, cable.rate_bps, "add")

    def scale(self, ends: tuple[str, str], factor: float) -> None:
        """Make a cable run at ``factor`` of its rate, in both directions."""
        cable = self.cables[ends]
        self._shape(cable, cable.rate_bps * factor, "change")

    def _do(self, name: str, command: str) -> None:
        self._commands.setdefault(name, []).append(command)

    def _cable(self, number: int, a: str, b: str, gbps: float) -> None:
        to_server = a in self.server_of
        lower = Port(self.server_of.get(a, a), "eth0" if to_server else f"up{number}")
        upper = Port(b, f"p{number}" if to_server else f"down{number}")
        self.cables[a, b] = Cable(lower, upper, gbps * 1e9 * ETHERNET_SHARE)
        _plug(lower, upper)
        for port in (lower, upper):
            self._do(port.owner, f"link set {port.device} gso_max_size {SUPER_PACKET_BYTES} up")
        if to_server:
            self._join_host(a, lower, upper)
        else:
            self._join_switches(number, a, b, lower, upper)

    def _join_host(self, address: str, host: Port, leaf: Port) -> None:
        self._do(host.owner, f"addr add {address}/32 dev {host.device}")
        self._do(host.owner, f"route add {GATEWAY} dev {host.device} scope link src {address}")
        self._do(host.owner, f"route add default via {GATEWAY} dev {host.device} src {address}")
        self._do(leaf.owner, f"addr add {GATEWAY}/32 dev {leaf.device}")
        self._do(leaf.owner, f"route add {address}/32 dev {leaf.device}")

    def _join_switches(self, number: int, leaf: str, spine: str, low: Port, high: Port) -> None:
        below, above = f"172.16.{number}.0", f"172.16.{number}.1"
        self._do(leaf, f"addr add {below}/31 dev {low.device}")
        self._do(spine, f"addr add {above}/31 dev {high.device}")
        hops = [
            f"nexthop via 172.16.{n}.1 dev up{n}"
            for n, link in enumerate(self.topology["links"][: number + 1])
            if link["a"] == leaf
        ]
        self._do(leaf, f"route replace default {' '.join(hops)}")
        for address in self.leaves[leaf]:
            self._do(spine, f"route append {address}/32 via {below} dev {high.device}")
        if leaf == next(iter(self.leaves)):
            self._do(spine, f"route append {RESOLVER_ADDRESS}/32 via {below} dev {high.device}")

    def _resolver(self) -> None:
        """Connect a name server, which is no part of the topology, to the first leaf."""
        host, leaf = Port(RESOLVER, "eth0"), Port(next(iter(self.leaves)), "pdns")
        _plug(host, leaf)
        for port in (host, leaf):
            self._do(port.owner, f"link set {port.device} up")
        self._join_host(RESOLVER_ADDRESS, host, leaf)

    def _management(self) -> None:
        """Connect every switch to the collector, outside of the ports that are observed."""
        run(["ip", "link", "set", "lo", "up"])
        run(["ip", "link", "add", "management", "type", "bridge"])
        run(["ip", "addr", "add", f"{COLLECTOR_ADDRESS}/24", "dev", "management"])
        run(["ip", "link", "set", "management", "up"])
        for number, name in enumerate(self.switches):
            run(["ip", "link", "add", f"m{number}", "type", "veth",
                 "peer", "name", "mgmt0", "netns", name])  # fmt: skip
            run(["ip", "link", "set", f"m{number}", "master", "management", "up"])
            self._do(name, "link set mgmt0 up")
            self._do(name, f"addr add {MANAGEMENT}.{number + 10}/24 dev mgmt0")

    def _shape(self, cable: Cable, rate_bps: float, verb: str) -> None:
        for port in (cable.a, cable.b):
            run([*inside(port.owner), "tc", "qdisc", verb, "dev", port.device, "root", "tbf",
                 "rate", f"{round(rate_bps)}bit", "burst", str(self.burst_bytes),
                 "latency", f"{QUEUE_MS}ms"])  # fmt: skip


def _plug(a: Port, b: Port) -> None:
    run(["ip", "link", "add", "name", a.device, "netns", a.owner, "type", "veth",
         "peer", "name", b.device, "netns", b.owner])  # fmt: skip
