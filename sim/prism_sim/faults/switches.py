"""Faults of switches and of how they spread traffic."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.faults.base import SLOW_ACCESS, STOPPED, Culprit, FaultBase, LinkFault
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLeaf, OfNic, OfSwitch
from prism_sim.faults.target import LinkNumbers, Target, Undo, together
from prism_sim.faults.timing import Pulsed
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


# A switch that forwards below its rate: a failed line card, a hot chip, wrong buffers.
class SlowSwitch(OfSwitch, LinkFault):
    """Every link of one switch runs at factor of its rate, in both directions."""

    kind: Literal["slow_switch"] = "slow_switch"

    def links(self, target: Target) -> LinkNumbers:
        return target.links.at(self.switch)


# A switch with a wrong setting: it forwards below its rate in one direction.
class MisconfiguredSwitch(OfSwitch, LinkFault):
    """The traffic of a switch to the tier above (or below) has ``factor`` of its rate.

    A wrong queue weight, a policer, or flow control without buffers limits some ports of a switch,
    in one direction. The other ports, and the other direction, are healthy.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"slow_switch"})

    kind: Literal["misconfigured_switch"] = "misconfigured_switch"
    direction: Literal["up", "down"] = "up"
    """Slow direction: to the tier above the switch, or to the tier below."""

    def links(self, target: Target) -> LinkNumbers:
        return target.links.out_of(self.switch, upwards=self.direction == "up")

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        cluster = setting.cluster
        several = cluster.spines > 0 and cluster.leaves_per_plane > 1
        below = {"leaf": several, "spine": cluster.pods_per_plane > 1}
        if self.direction == "up" and not below.get(self.switch.rstrip("0123456789"), False):
            yield Remark(("direction",), f"{self.switch} sends nothing upwards", "use down")


# Failed uplinks of a leaf: a failed line card, a cut bundle of fibres.
class FailedUplinks(OfLeaf):
    """Some uplinks of a leaf fail, and its connections share the remaining ones.

    The leaf, and the spines that send to it, rehash every connection over the remaining uplinks.
    With f connections at once over u uplinks of rate C, each has u C / f at most, and m of them on
    one uplink have C / m each. A message that is in flight when the uplinks fail keeps its path to
    its end: it lasts a fraction of a second.
    """

    kind: Literal["failed_uplinks"] = "failed_uplinks"
    factor: float = Field(default=1.0, ge=1, le=1)
    """Speed of the remaining uplinks: as before."""
    failed: int = Field(ge=1, le=1_000_000)
    """Number of uplinks that fail: those with the lowest numbers (uplink i leads to spine i modulo
    the number of spines). At least one must remain."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"failed": 1}

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 2 * self.failed / len(target.links.uplinks_of(self.leaf))  # two directions each

    def begin(self, target: Target) -> Undo:
        return target.links.fail_uplinks(self.leaf, range(self.failed))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.failed >= uplinks:
            what = f"{self.failed} uplinks fail, but a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("failed",), what, "leave at least one", where)


# A leaf that is down, in a fabric whose NICs have ports on other leaves as well.
class FailedLeaf(OfLeaf):
    """One leaf of a pair is down, and its NICs use their other ports.

    A NIC of k ports keeps (k - 1) / k of its rate, and so does each NIC that it exchanges traffic
    with, for this traffic. Messages that are under way keep their path to their end: they last a
    fraction of a second.

    Reference: Qian et al., Alibaba HPN, SIGCOMM'24, section 5.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"failed_switch", "switch_down", "port_down"})

    kind: Literal["failed_leaf"] = "failed_leaf"
    factor: float = Field(default=1.0, ge=1, le=1)
    """Speed of the remaining ports: as before."""

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 1 / target.links.ports_of_a_nic

    def begin(self, target: Target) -> Undo:
        return target.links.fail_leaves([self.leaf])

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_at([self.leaf])

    def doubts(self, setting: Setting) -> Remarks:
        yield from ()  # traffic between two NICs of the leaf is affected as well

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        if setting.cluster.nic_ports == 1:
            what = "NICs have a single port, and no other one to use"
            how = "give them nic_ports: 2, or let a NIC stop (stopped_nic)"
            yield Remark(("leaf",), what, how, (("cluster", "nic_ports"),))


# A plane of the fabric that is down: a power feed, or an upgrade that went wrong.
class FailedPlane(FaultBase):
    """All switches of a plane are down, and every NIC uses its ports in the other planes.

    With k planes, (k - 1) / k of the fabric's rate is left.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"plane_down"})

    kind: Literal["failed_plane"] = "failed_plane"
    plane: int = Field(ge=0, le=7, description="The plane, from 0.")
    factor: float = Field(default=1.0, ge=1, le=1)
    """Speed of the remaining planes: as before."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        plane = int(drawing.stream.integers(drawing.setting.cluster.fabric.planes))
        return super().drawn(drawing) | {"plane": plane}

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 1 / target.links.ports_of_a_nic

    def culprit(self, target: Target) -> Culprit:
        return Culprit("plane", f"plane {self.plane}")

    def begin(self, target: Target) -> Undo:
        return target.links.fail_leaves(target.links.leaves_of_plane(self.plane))

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_at(target.links.leaves_of_plane(self.plane))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        planes, about = setting.cluster.fabric.planes, (("cluster", "fabric", "planes"),)
        if planes == 1:
            what = "the fabric has a single plane"
            how = "give it planes: 2 (and NICs as many ports), or let a leaf fail (failed_leaf)"
            yield Remark(("plane",), what, how, about)
        elif self.plane >= planes:
            what = f"there is no plane {self.plane} among {planes}"
            yield Remark(("plane",), what, "planes count from 0", about)


# ECMP polarisation: a leaf hashes all connections onto a few of its uplinks.
class PolarisedHashing(OfLeaf):
    """Connections that leave the leaf use ``used`` of its uplinks only; the others are idle.

    Where two tiers hash with the same function, the second one sees only connections that the
    first one sent its way, and sends all of them the same way again. All links are healthy.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"ecmp", "congestion", "slow_switch"})

    kind: Literal["polarised_hashing"] = "polarised_hashing"
    used: int = Field(default=1, ge=1, le=1_000_000)
    """Uplinks in use: those with the lowest numbers."""

    def magnitude(self, target: Target) -> float:
        return 1 - 2 * self.used / len(target.links.uplinks_of(self.leaf))  # two directions each

    def begin(self, target: Target) -> Undo:
        uplinks = len(target.links.uplinks_of(self.leaf)) // 2
        return target.links.avoid_uplinks(self.leaf, range(self.used, uplinks))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.used >= uplinks:
            what = f"{self.used} uplinks are used, and a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("used",), what, "use fewer than all", where)


# Uneven spraying: a leaf sends more over some of its uplinks than over others.
class UnevenSpraying(OfLeaf):
    """The leaf gives the first uplinks ``times`` their weight; all links are healthy.

    A wrong table of weights, or entropy values of which a hash makes too few, load some paths more.
    All messages that leave the leaf wait for their packets on these.
    """

    causes: ClassVar[frozenset[str]] = frozenset(
        {"ecmp", "congestion", "slow_switch", "polarised_hashing"}
    )

    kind: Literal["uneven_spraying"] = "uneven_spraying"
    times: float = Field(default=2.0, gt=1, le=1e6, description="Weight of these uplinks.")
    preferred: int = Field(default=1, ge=1, le=1_000_000)
    """Uplinks with this weight: those with the lowest numbers."""

    def magnitude(self, target: Target) -> float:
        uplinks = len(target.links.uplinks_of(self.leaf)) // 2  # two directions each
        even = 1 / uplinks
        return 1 - even / (self.times / (self.times * self.preferred + uplinks - self.preferred))

    def begin(self, target: Target) -> Undo:
        return target.links.prefer_uplinks(self.leaf, range(self.preferred), self.times)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        routing = setting.cluster.fabric.routing
        if not routing.splits:
            what = f"{routing.kind} sends no message over several uplinks"
            where = (("cluster", "fabric", "routing"),)
            yield Remark(("kind",), what, "let routing be spray", where)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.preferred >= uplinks:
            what = f"{self.preferred} uplinks are preferred, and a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("preferred",), what, "use fewer than all", where)


# A paused port: flow control stops it, and what shares its upstream queue waits as well.
class PausedPort(Pulsed, OfNic):
    """A NIC pauses its leaf for ``lasts_s`` in every ``every_s`` (priority flow control).

    The leaf keeps what is for the NIC until its buffer is full, and then pauses the links from
    which that comes. Everything on these links waits, also for other NICs: with spraying, all that
    enters the leaf. The buffer counts as empty: it holds some ten microseconds.

    Reference: Guo et al., RDMA over commodity Ethernet at scale, SIGCOMM'16, section 4 (pause
    frames that spread from one NIC).
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"pause_frames", "congestion"}

    kind: Literal["paused_port"] = "paused_port"

    def magnitude(self, target: Target) -> float:
        return self.share

    def begin(self, target: Target) -> Undo:
        def pause() -> Undo:
            both = (self.links(target), target.links.upstream_of(self.address(target)))
            return together([target.links.slow(links, STOPPED) for links in both])

        return self.pulsed(target.clock, pause)

    def jobs_affected(self, target: Target) -> list[str]:
        both = (self.links(target), target.links.upstream_of(self.address(target)))
        return sorted({job for links in both for job in target.links.jobs_across(links)})

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if len(topology_of(setting.cluster).leaves) == 1:
            yield Remark(("kind",), "all NICs are on one leaf: no link leads to it from above")
