"""The hardware of a scenario: servers with GPUs and NICs, and the fabric between them.

Two fabrics are in use for training. In a *rail-optimised* one, NIC *i* of every server of
a block goes to the block's leaf switch *i*, so equal GPU positions are one hop apart. In a
*top-of-rack* one, all NICs of a few servers go to one leaf. In both, a tier of spines joins the
leaves, over uplinks that may be fewer than the NICs below them (oversubscription). In a fabric of
three tiers, spines join the leaves of one pod, and cores join the spines of all pods. A *rail-only*
fabric has no spines.

A NIC may have several ports, each at a part of its rate and on a leaf of its own: the leaves of a
pair (dual top of rack). These leaves share spines, or each port has a *plane* of the fabric to
itself. An *NVLink domain* is a server, or several of them: traffic inside it crosses no switch of
the fabric.

References: Qian et al., Alibaba HPN, SIGCOMM'24, sections 5 and 6 (NICs of two ports of 200 Gbit/s,
two planes); NVIDIA GB200 NVL72 data sheet (18 trays of 4 GPUs in one domain).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from prism_sim.registry import NamedLater
from prism_sim.scenario.base import Closed, Loc
from prism_sim.scenario.gpus import GPUS, gpu_numbers, with_nvlink
from prism_sim.scenario.names import nic_address, server_index
from prism_sim.scenario.routing import ROUTINGS, Ecmp, RoutingBase
from prism_sim.scenario.wirings import WIRINGS, Wiring

SHAPE: tuple[Loc, ...] = (
    ("cluster", "servers"),
    ("cluster", "nics_per_server"),
    ("cluster", "nic_ports"),
    ("cluster", "nvlink_domain"),
    ("cluster", "fabric", "kind"),
    ("cluster", "fabric", "planes"),
    ("cluster", "fabric", "leaf_ports"),
    ("cluster", "fabric", "spines"),
    ("cluster", "fabric", "uplinks"),
    ("cluster", "fabric", "pod_leaves"),
    ("cluster", "fabric", "cores"),
    ("cluster", "fabric", "core_uplinks"),
)
"""The values that determine switches and links."""


class Gpu(Closed):
    """Speed of one GPU."""

    peak_tflops: float = Field(default=989.0, ge=1e-6, le=1e12)
    """Dense bf16 peak [TFLOP/s]. Default: NVIDIA H100 SXM data sheet."""
    memory_gbytes_per_s: float = Field(default=3350.0, ge=1e-6, le=1e12)
    """Memory bandwidth [GB/s, 10^9 bytes]. Default: NVIDIA H100 SXM data sheet."""


NamedGpu = Annotated[
    Gpu,
    BeforeValidator(
        gpu_numbers,
        json_schema_input_type=Annotated[str, Field(json_schema_extra={"enum": [*GPUS]})] | Gpu,
    ),
]
"""A GPU by its name, or by its numbers."""


AnyRouting = Annotated[RoutingBase, NamedLater(ROUTINGS)]
"""Any kind of routing, by name or with options."""


class FabricConfig(Closed):
    """Leaf and spine switches and the links between them."""

    kind: Literal["rail", "tor", "rail_only"] = "rail"
    """rail: NIC i of a block of `leaf_ports` servers goes to the block's leaf i. tor: all NICs of
    `leaf_ports` / NICs-a-server servers go to one leaf. rail_only: position i of every NVLink
    domain goes to leaf i, and there are no spines (`uplinks`, `spines` and `pod_leaves` do not
    count)."""
    planes: int = Field(default=1, ge=1, le=8)
    """Planes of the fabric: 1, the leaves of all ports of a NIC share the spines; or as many as
    `nic_ports`, each port has leaves and spines of its own."""
    leaf_ports: int = Field(default=64, ge=1, le=1_000_000)
    """NICs (one port of each) per leaf switch. Default: 64, as in SimAI's configurations."""
    uplinks: int | None = Field(default=None, ge=1, le=1_000_000)
    """Uplinks of a leaf, shared evenly among the spines. Left out: the number that gives a leaf as
    much bandwidth up as down (no oversubscription)."""
    uplink_gbps: float | None = Field(default=None, ge=1e-6, le=1e12)
    """Rate of one uplink and direction [Gbit/s]. Left out: that of a NIC."""
    spines: int = Field(default=4, ge=1, le=10_000)
    """Spine switches: per pod with three tiers, otherwise in total."""
    pod_leaves: int | None = Field(default=None, ge=1, le=1_000_000)
    """Leaves of a pod. If given, there is a third tier: the spines of a pod connect its leaves
    only, and core switches connect the pods. Left out: two tiers."""
    cores: int = Field(default=4, ge=1, le=10_000, description="Core switches, with three tiers.")
    core_uplinks: int | None = Field(default=None, ge=1, le=1_000_000)
    """Links of one spine to the cores, shared evenly among them, at the uplinks' rate. Left out: as
    much bandwidth up as down."""
    routing: AnyRouting = Ecmp()
    """What switches do with equal paths: a name, or `kind` and its options. ecmp: a hash gives each
    connection one path. flowlet: a new path after a silence. adaptive: the least loaded path for
    each message, or burst. spray: each message over all paths."""
    hop_latency_ns: float = Field(default=500.0, ge=0, le=1e9)
    """Time of a packet on one link and in the switch after it [ns]. Default: 0.5 us, as in the
    SimAI and ASTRA-sim configurations."""


class Cluster(Closed):
    """Servers, their GPUs and NICs, and the fabric between them."""

    servers: int = Field(ge=1, le=65536)
    """Servers in the cluster; they are called s0000, s0001, ..."""
    gpus_per_server: int = Field(default=8, ge=1, le=1024, description="GPUs in a server.")
    nics_per_server: int = Field(default=8, ge=1, le=254)
    """NICs in a server; must divide gpus_per_server. With fewer NICs than GPUs, neighbouring GPUs
    share one."""
    nic_ports: int = Field(default=1, ge=1, le=8)
    """Ports of a NIC, each at `nic_gbps` / `nic_ports` and on a leaf of its own. A message is split
    evenly over them; if a leaf fails, the other ports carry all of it."""
    port_addresses: Literal["shared", "own"] = "shared"
    """Addresses of a NIC with several ports. shared: one, as of a bond (Alibaba HPN, SIGCOMM'24).
    own: each port has one, as of NICs that NCCL_IB_MERGE_NICS joins."""
    nvlink_domain: int | None = Field(default=None, ge=1, le=65536)
    """GPUs that share one NVLink domain: whole servers. 72 with 4 GPUs a server is a GB200 NVL72,
    18 servers in a rack. Left out: the GPUs of a server."""
    gpu: NamedGpu = Gpu()
    """Speed of one GPU: its name (which also sets nvlink_gbps, if that is left out), or numbers."""
    gpu_spread: float = Field(default=0.0, ge=0, le=0.5)
    """Healthy GPUs differ: sigma of the lognormal factor (median 1) on the compute time of each
    GPU, constant during the run. A tensor-parallel group is as slow as its slowest GPU. 0.03 gives
    up to 14 % between the GPUs of a job, as published (arXiv 2510.15596). Jobs that follow a trace
    keep its durations."""
    nvlink_gbps: float = Field(default=3600.0, ge=1e-6, le=1e12)
    """NVLink rate of one GPU and direction [Gbit/s]. Default: 450 GB/s, NVIDIA H100 SXM data sheet
    (900 GB/s in both directions)."""
    nvlink_latency_ns: float = Field(default=25.0, ge=0, le=1e9)
    """Latency of one NVLink hop [ns]. Default: SimAI and ASTRA-sim configurations."""
    nic_gbps: float = Field(default=400.0, ge=1e-6, le=1e12)
    """Rate of one NIC and direction [Gbit/s]. Default: NDR InfiniBand or 400 GbE."""
    nic_burst_bytes: int = Field(default=0, ge=0, le=10**12)
    """Bytes that pass a NIC, and the port of its leaf, at once after a silence: the size of a token
    bucket that fills at nic_gbps while the link is not busy. Default: none, every byte takes its
    time. Linux's tc-tbf calls it burst."""
    queue_pairs: int = Field(default=1, ge=1, le=64)
    """Queue pairs of a connection, on each port: messages are split evenly among them. Each queue
    pair has its own 5-tuple, and so its own path. Default: NCCL_IB_QPS_PER_CONNECTION = 1."""
    efficiency: Literal["ideal", "measured"] = "ideal"
    """Rate of a collective. ideal: the rate of the links. measured: less for small buffers and many
    servers, by a law fitted to SimAI's nic_ratio figures."""
    fabric: FabricConfig = Field(default=FabricConfig(), description="Switches and links.")

    @model_validator(mode="before")
    @classmethod
    def _nvlink_of_the_gpu(cls, values: Any) -> Any:
        return with_nvlink(values)

    @model_validator(mode="after")
    def _a_plane_for_each_port(self) -> Cluster:
        planes, ports = self.fabric.planes, self.nic_ports
        if planes not in (1, ports):
            what = f"fabric.planes is {planes} and nic_ports is {ports}"
            how = "use planes: 1"
            if ports > 1:
                how = f"use planes: {ports}, or planes: 1 for leaves that share spines"
            raise ValueError(f"{what}; {how}")
        return self

    @property
    def gpus(self) -> int:
        """GPUs in the whole cluster."""
        return self.servers * self.gpus_per_server

    @property
    def gpus_per_nic(self) -> int:
        """GPUs that share one NIC."""
        return max(1, self.gpus_per_server // self.nics_per_server)

    @property
    def ports_per_server(self) -> int:
        """Ports of all NICs of a server."""
        return self.nics_per_server * self.nic_ports

    @property
    def port_gbps(self) -> float:
        """Rate of one port of a NIC and direction [Gbit/s]."""
        return self.nic_gbps / self.nic_ports

    @property
    def connections(self) -> int:
        """Queue pairs of a connection over all ports of a NIC."""
        return self.queue_pairs * self.nic_ports

    @property
    def domain_gpus(self) -> int:
        """GPUs of an NVLink domain."""
        return self.nvlink_domain or self.gpus_per_server

    @property
    def servers_per_domain(self) -> int:
        """Servers that share one NVLink domain."""
        return max(1, self.domain_gpus // self.gpus_per_server)

    @property
    def wiring(self) -> Wiring:
        """How NICs are plugged into leaves."""
        return WIRINGS[self.fabric.kind]

    @property
    def leaf_ports(self) -> int:
        """NICs (one port of each) per leaf switch."""
        return self.fabric.leaf_ports

    @property
    def spines(self) -> int:
        """Spine switches of a pod, or of a plane without pods."""
        return self.fabric.spines if self.wiring.has_spines else 0

    @property
    def uplink_gbps(self) -> float:
        """Rate of one uplink and direction [Gbit/s]."""
        rate = self.fabric.uplink_gbps
        return self.nic_gbps if rate is None else rate

    @property
    def uplinks(self) -> int:
        """Uplinks of one leaf over all spines.

        By default, at least as much bandwidth up as down, in whole links to every spine.
        """
        fabric = self.fabric
        if not self.spines:
            return 0
        if fabric.uplinks is not None:
            return fabric.uplinks
        needed = fabric.leaf_ports * self.port_gbps / self.uplink_gbps
        return fabric.spines * max(1, -int(-needed // fabric.spines))

    @property
    def pod_leaves(self) -> int:
        """Leaves of a pod; all of a plane if there are only two tiers."""
        return (self.spines and self.fabric.pod_leaves) or self.leaves_per_plane

    @property
    def pods_per_plane(self) -> int:
        """Pods of leaves in each plane; one if there are only two tiers."""
        return -(-self.leaves_per_plane // self.pod_leaves)

    @property
    def pods(self) -> int:
        """Pods of leaves in all planes: each has spines of its own."""
        return self.fabric.planes * self.pods_per_plane

    @property
    def core_uplinks(self) -> int:
        """Links of one spine to all cores; none if there are only two tiers.

        By default, as many as the links to its leaves, in whole links to every core.
        """
        fabric = self.fabric
        if fabric.pod_leaves is None or not self.spines:
            return 0
        if fabric.core_uplinks is not None:
            return fabric.core_uplinks
        needed = fabric.pod_leaves * self.uplinks / fabric.spines
        return fabric.cores * max(1, -int(-needed // fabric.cores))

    @property
    def servers_per_leaf(self) -> int:
        """Servers that have a NIC on the same leaf."""
        return self.wiring.servers_per_leaf(self)

    @property
    def leaves(self) -> int:
        """Leaf switches in the cluster."""
        blocks = -(-self.servers // self.servers_per_leaf)
        return blocks * self.wiring.leaves_per_block(self) * self.nic_ports

    @property
    def leaves_per_plane(self) -> int:
        """Leaf switches in each plane."""
        return self.leaves // self.fabric.planes

    def leaf_of(self, server: Any, nic: Any, port: Any = 0) -> Any:
        """Index of the leaf of port ``port`` of NIC ``nic`` of ``server`` (numbers or arrays).

        The leaves of a pair that share spines are neighbours; otherwise those of a plane are.
        """
        block = server // self.servers_per_leaf
        leaf = block * self.wiring.leaves_per_block(self)
        leaf = leaf + self.wiring.leaf_in_block(self, server, nic)
        if self.fabric.planes == 1:
            return leaf * self.nic_ports + port
        return port * self.leaves_per_plane + leaf

    def address_of(self, server: int, nic: int, port: int = 0) -> str:
        """Address of a port of a NIC; that of the NIC if its ports share one."""
        if self.port_addresses == "shared":
            return nic_address(server, nic)
        return nic_address(server, nic * self.nic_ports + port)

    def has_server(self, name: str) -> bool:
        """Whether a server of the cluster is called ``name``."""
        index = server_index(name)
        return index is not None and index < self.servers
