"""The sets of flows that are measured and cross-checked.

The *strided rings* are the usual hard case for a fabric simulator. Every GPU of a cluster
takes part in a ring all-reduce with the GPUs of its own position in all other servers, so
as many rings run side by side as a server has GPUs. Where a ring leaves its leaf switch,
hashing decides which uplink a connection takes; some take the same one, wait for each
other, and hold up the rest of their ring.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flowset import chained, pointers
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.program import Program
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.draws import Draws
from prism_sim.scenario.cluster import Cluster

GPUS_PER_SERVER = 8
RING_BYTES = 2**30
LINK_NS = 1_000
"""Latency of every link of the strided rings [ns]: 2 us in a leaf, 4 us across."""
SPREAD = 0.2
"""Chunks of unequal size are drawn within this fraction of the equal ones."""
FIGURES = {64: 37.609, 256: 83.46, 1024: 86.24}
"""What SimGrid found for the strided rings with a hash of its own [ms], by GPUs."""


def cluster(gpus: int, ports: int = 64) -> Cluster:
    """Servers of 8 GPUs with 400 Gbit/s each, leaves of ``ports`` NICs and as many uplinks."""
    spine = {"leaf_ports": ports, "uplinks": ports, "spines": ports, "hop_latency_ns": 0}
    servers, fabric = gpus // GPUS_PER_SERVER, {"kind": "tor", **spine}
    return Cluster.model_validate({"servers": servers, "nic_gbps": 400, "fabric": fabric})


def strided_routes(router: Router) -> NDArray[np.int32]:
    """The template of each hop of each ring, shape (rings, servers)."""
    servers = router.layout.cluster.servers
    hops = [
        [
            router.route(s * GPUS_PER_SERVER + k, (s + 1) % servers * GPUS_PER_SERVER + k, "", "dp")
            for s in range(servers)
        ]
        for k in range(GPUS_PER_SERVER)
    ]
    return np.array([[router.template(route) for route in ring] for ring in hops], np.int32)


def strided_rings(
    gpus: int, spread: float = 0.0, seed: int = 0, link_ns: int = LINK_NS, ports: int = 64
) -> Program:
    """All-reduces of 1 GiB in strided rings over ``gpus`` GPUs, one flow a chunk and hop.

    A hop sends its next chunk when it has sent the one before and has received the one
    that the hop behind it sent. Chunks are equal, or drawn within ``spread`` of that.
    """
    layout, templates = Layout(cluster(gpus, ports)), Templates()
    route = strided_routes(Router(layout, templates, Draws(seed)))
    rings, servers = route.shape
    steps = 2 * (servers - 1)
    flow = np.arange(rings * steps * servers, dtype=np.int32).reshape(rings, steps, servers)
    followed = np.zeros(flow.shape, np.int64)
    followed[:, :-1] = 2
    behind = flow[:, 1:]
    after = np.stack([behind, np.roll(behind, -1, axis=2)], axis=-1)
    template = np.repeat(route[:, None], steps, axis=1).ravel()
    factor = np.random.default_rng(seed).uniform(1 - spread, 1 + spread, flow.size)
    return Program(
        capacity=layout.capacity,
        templates=templates,
        template=template,
        size_bytes=(RING_BYTES // servers * factor).astype(np.int64),
        latency_ns=link_ns * np.diff(templates.ptr)[template],
        waits_for=np.roll(followed, 1, axis=1).ravel().astype(np.int32),
        after_ptr=pointers(followed.ravel()),
        after=after.ravel(),
    )


def contended_rings(rings: int, hops: int, late_ns: int, chunk_bytes: int = 10_000_000) -> Program:
    """All-reduces in rings: each sends one hop over link 0, and every other over a link of its own.

    Ring r begins ``r * late_ns`` after the first. Links carry 50 bytes/ns. Flows are numbered by
    ring, step and hop; a chunk waits as in :func:`strided_rings`.
    """
    steps = 2 * (hops - 1)
    templates, size = Templates(), rings * steps * hops
    for ring in range(rings):
        for hop in range(hops):
            templates.add([0 if hop == 0 else ring * hops + hop])
    number = np.arange(size).reshape(rings, steps, hops)
    template = np.broadcast_to(np.arange(rings * hops).reshape(rings, 1, hops), number.shape)
    latency_ns = np.zeros(number.shape, np.int64)
    latency_ns[:, 0] = late_ns * np.arange(rings)[:, None]
    before: list[list[int]] = [[] for _ in range(size)]
    for ring, step, hop in np.ndindex(*number.shape):
        if step:
            earlier = number[ring, step - 1]
            before[number[ring, step, hop]] = [int(earlier[hop]), int(earlier[hop - 1])]
    return chained(
        np.full(rings * hops, 50.0), templates, template.ravel().astype(np.int32),
        np.full(size, chunk_bytes), latency_ns.ravel(), before,
    )  # fmt: skip


def random_flows(flows: int, links: int, seed: int = 0) -> Program:
    """Flows over one to five random links that wait for up to three random earlier ones.

    Capacities [bytes/ns] and sizes [bytes] are drawn evenly on a logarithmic scale,
    latencies up to 5 us. There are as many routes as flows.
    """
    draw = np.random.default_rng(seed)
    capacity = np.exp(draw.uniform(np.log(1), np.log(50), links))
    templates = Templates()
    for _ in range(flows):
        way = draw.choice(links, draw.integers(1, min(links, 5) + 1), replace=False)
        templates.add(way.tolist())
    size = np.exp(draw.uniform(np.log(2e5), np.log(5e7), flows)).astype(np.int64)
    latency = draw.integers(0, 5_000, flows)
    waits = np.minimum(draw.integers(0, 4, flows), np.arange(flows))
    before = [draw.choice(i, count, replace=False) for i, count in enumerate(waits)]
    route = np.arange(flows, dtype=np.int32)
    return chained(capacity, templates, route, size, latency, before)
