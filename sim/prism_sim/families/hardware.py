"""The cluster of a family, and its telemetry.

The telemetry of a family: how records are cut, and what disturbs them.

All quantities are continuous: a diagnosis cannot know a few settings by heart.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from prism_sim.families.dice import Dice, Maybe, Share, Span, Whole
from prism_sim.scenario.base import Closed
from prism_sim.scenario.cluster import AnyRouting
from prism_sim.scenario.gpus import GPUS
from prism_sim.scenario.words import did_you_mean


class Telemetry(Closed):
    """Ranges of the collector; every quantity is log-uniform."""

    message_boundary: Share
    """Share of worlds whose records end with their messages, as no switch does."""
    idle_gap_ms: Span = Field(description="Silence that ends a record [ms].")
    active_timeout_s: Maybe | None = None
    """Length at which a record is cut [s]."""
    headers: Share = Field(default=1.0, description="Share with packets and headers in the bytes.")
    tick_us: Maybe | None = Field(default=None, description="Unit of all times [us].")
    record_loss: Maybe | None = Field(default=None, description="Loss of a record.")
    packet_loss: Maybe | None = None
    """Loss of a packet that is sent again; needs headers."""
    clock_offset_us: Maybe | None = None
    """Standard deviation of the clocks of exporters [us]."""
    sampling_one_in: Maybe | None = Field(default=None, description="One packet in so many.")
    lateness_ms: Maybe | None = None
    """Mean time from the end of a record to its arrival [ms]."""
    points: tuple[Literal["ingress", "egress", "both"], ...] = ("ingress",)
    """Observation points."""
    acknowledgements: Share = 0.0
    """Share with records of acknowledgements; needs headers."""
    without_paths: Share = Field(default=0.0, description="Share of worlds without any path.")
    unknown_hop: Maybe | None = Field(default=None, description="Probability of an unknown hop.")
    split_paths: tuple[Literal["unknown", "one", "all"], ...] = ("unknown",)
    """Records of messages that are split over several paths: without the switches between the
    leaves, with one path, or one record for each path."""

    def draw(self, dice: Dice) -> dict[str, Any]:
        """The collector of one world."""
        collector: dict[str, Any] = {
            "idle_gap_us": 1e3 * dice.log_uniform("idle gap", self.idle_gap_ms),
            "message_boundary": dice.happens("message boundary", self.message_boundary),
        }
        timeout_s = dice.maybe("active timeout", self.active_timeout_s)
        if timeout_s is not None:
            collector["active_timeout_s"] = timeout_s
        headers = dice.happens("headers", self.headers)
        effects = [
            *(self._of_packets(dice) if headers else []),
            *self._of_records(dice),
            *self._of_paths(dice),
        ]
        return collector | {"effects": effects}

    def _of_packets(self, dice: Dice) -> list[dict[str, Any]]:
        effects: list[dict[str, Any]] = [{"kind": "headers"}]
        lost = dice.maybe("packet loss", self.packet_loss)
        if lost is not None:
            effects.append({"kind": "retransmissions", "probability": lost})
        if dice.happens("acknowledgements", self.acknowledgements):
            effects.append({"kind": "acknowledgements"})
        return effects

    def _of_records(self, dice: Dice) -> list[dict[str, Any]]:
        drawn = {
            "granularity": ("unit_ns", 1e3, dice.maybe("tick", self.tick_us)),
            "loss": ("probability", 1, dice.maybe("record loss", self.record_loss)),
            "clocks": ("offset_us", 1, dice.maybe("clock offset", self.clock_offset_us)),
            "sampling": ("one_in", 1, dice.maybe("sampling", self.sampling_one_in)),
            "lateness": ("delay_ms", 1, dice.maybe("lateness", self.lateness_ms)),
        }
        effects: list[dict[str, Any]] = [
            {"kind": kind, key: round(value * scale) if key in _WHOLE else value * scale}
            for kind, (key, scale, value) in drawn.items()
            if value is not None
        ]
        point = dice.choice("observation point", self.points)
        return effects + ([] if point == "ingress" else [{"kind": "observation", "point": point}])

    def _of_paths(self, dice: Dice) -> list[dict[str, Any]]:
        if dice.happens("without paths", self.without_paths):
            return [{"kind": "paths"}]
        unknown = dice.maybe("unknown hop", self.unknown_hop)
        effect: dict[str, Any] = {} if unknown is None else {"unknown_hop": unknown}
        split = dice.choice("split paths", self.split_paths)
        if split != "unknown":
            effect["split"] = split
        return [{"kind": "paths", **effect}] if effect else []


_WHOLE = frozenset({"unit_ns", "one_in"})
"""Options that are whole numbers."""


# The hardware of a family: GPUs, NICs, fabric, and servers that no job uses.


# What racks and fabrics of a family have beyond one port a NIC and NVLink inside a server.
class Topologies(Closed):
    """Ranges of ports, planes and NVLink domains; by default there are none of them."""

    nic_ports: tuple[int, ...] = Field(default=(1,), description="Ports of a NIC.")
    planes: Share = 0.5
    """Share of clusters in which each port has a plane; others: pairs."""
    own_addresses: Share = 0.5
    """Share of clusters in which each port has an address of its own."""
    domain_servers: tuple[int, ...] = Field(default=(1,), min_length=1)
    """Servers that share one NVLink domain."""

    def servers(self, dice: Dice) -> int:
        """Servers of an NVLink domain."""
        return dice.choice("servers of a domain", self.domain_servers)

    def draw(self, dice: Dice, cluster: dict[str, Any]) -> dict[str, Any]:
        """``cluster`` with ports, planes and domains, where there are any."""
        fabric = dict(cluster["fabric"])
        drawn: dict[str, Any] = {}
        ports = dice.choice("ports of a nic", self.nic_ports)
        if ports > 1:
            own = dice.happens("own addresses", self.own_addresses)
            drawn = {"nic_ports": ports, "port_addresses": "own" if own else "shared"}
            fabric["planes"] = ports if dice.happens("planes", self.planes) else 1
        servers = self.servers(dice)
        if servers > 1:
            drawn["nvlink_domain"] = servers * cluster["gpus_per_server"]
        if fabric["kind"] == "rail_only":
            whole = -(-cluster["servers"] // servers) * servers
            cluster = cluster | {"servers": whole}
            fabric = {"kind": "rail_only", "leaf_ports": cluster["servers"]} | (
                {"planes": fabric["planes"]} if "planes" in fabric else {}
            )
        return cluster | drawn | {"fabric": fabric}


def _known(name: str) -> str:
    if name not in GPUS:
        raise ValueError(f"no GPU is called {name!r}; {did_you_mean(name, GPUS)}")
    return name


GpuName = Annotated[str, AfterValidator(_known)]


class Hardware(Closed):
    """Ranges of a cluster. Its number of servers follows from the jobs."""

    gpus: tuple[GpuName, ...] = Field(min_length=1, description="GPUs by name.")
    gpus_per_server: tuple[int, ...] = Field(min_length=1, description="GPUs in a server.")
    gpus_per_nic: tuple[int, ...] = Field(default=(1,), description="GPUs that share a NIC.")
    nic_gbps: tuple[float, ...] = Field(min_length=1, description="Rates of a NIC [Gbit/s].")
    gpu_spread: Span
    """Sigma of the speed of healthy GPUs. 0.03 gives the published 14 % between GPUs (arXiv
    2510.15596)."""
    fabrics: tuple[Literal["rail", "tor", "rail_only"], ...] = Field(min_length=1)
    """Kinds of fabric."""
    leaf_servers: Whole = Field(description="Servers with a NIC on the same leaf.")
    spines: tuple[int, ...] = Field(min_length=1, description="Spine switches.")
    oversubscribed: Share = Field(default=0.0, description="Share with fewer uplinks than NICs.")
    oversubscription: Span = (1.5, 4.0)
    """There: bandwidth of the NICs of a leaf over that of its uplinks, log-uniform."""
    routings: tuple[AnyRouting, ...] = ()
    """What switches do with equal paths. Left out: ecmp."""
    queue_pairs: tuple[int, ...] = Field(default=(1,), description="Queue pairs of a connection.")
    topologies: Topologies = Topologies()
    """Ports, planes and NVLink domains."""
    free_servers: Whole = Field(default=(0, 2), description="Servers that no job uses.")

    def server(self, dice: Dice) -> tuple[int, int]:
        """GPUs and NICs of a server."""
        gpus = dice.choice("gpus per server", self.gpus_per_server)
        sharing = [number for number in self.gpus_per_nic if gpus % number == 0] or [1]
        return gpus, gpus // dice.choice("gpus per nic", sharing)

    def draw(self, dice: Dice, ranks: int, *, storage: bool) -> dict[str, Any]:
        """A cluster for jobs of ``ranks`` GPUs in all, with one more server for ``storage``."""
        gpus, nics = self.server(dice)
        servers = -(-ranks // gpus) + dice.whole("free servers", self.free_servers) + storage
        cluster = {
            "servers": max(2, servers),
            "gpus_per_server": gpus,
            "nics_per_server": nics,
            "gpu": dice.choice("gpu", self.gpus),
            "gpu_spread": dice.uniform("gpu spread", self.gpu_spread),
            "nic_gbps": dice.choice("nic rate", self.nic_gbps),
            "queue_pairs": dice.choice("queue pairs", self.queue_pairs),
            "fabric": self._fabric(dice, nics),
        }
        return self.topologies.draw(dice, cluster)

    def domain_gpus(self, dice: Dice) -> int:
        """GPUs that share NVLink."""
        return self.server(dice)[0] * self.topologies.servers(dice)

    def _fabric(self, dice: Dice, nics: int) -> dict[str, Any]:
        kind = dice.choice("fabric", self.fabrics)
        servers = dice.whole("servers of a leaf", self.leaf_servers)
        spines = dice.choice("spines", self.spines)
        ports = servers if kind == "rail" else servers * nics
        fabric: dict[str, Any] = {"kind": kind, "leaf_ports": ports, "spines": spines}
        if self.routings:
            fabric["routing"] = dice.choice("routing", self.routings).model_dump()
        if not dice.happens("oversubscribed", self.oversubscribed):
            return fabric
        ratio = dice.log_uniform("oversubscription", self.oversubscription)
        return fabric | {"uplinks": spines * max(1, round(ports / ratio / spines))}
