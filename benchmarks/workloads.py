"""Sets of flows for the benchmark and for the checks of the fabric.

*Strided rings* are a usual hard case for a fabric simulator. Every GPU of a cluster takes part in
a ring all-reduce with the GPUs at the same position in all other servers, so there is a ring for
each GPU of a server. If a connection of a ring leaves its leaf switch, a hash decides its uplink.
Several connections may get the same uplink. They then delay each other and the rest of their
rings.
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
"""Latency of every link of the strided rings [ns]: 2 us inside a leaf, 4 us between leaves."""
SPREAD = 0.2
"""Unequal chunks differ by at most this fraction from equal ones."""
FIGURES = {64: 37.609, 256: 83.46, 1024: 86.24}
"""Ends of the strided rings in SimGrid with its own hash [ms], by GPUs."""


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
    """All-reduces of 1 GiB in strided rings over ``gpus`` GPUs, one flow per chunk and hop.

    A hop sends its next chunk when it has sent the last one and has received the chunk of the
    previous hop. Chunks are equal, or differ by at most the fraction ``spread``.
    """
    layout, templates = Layout(cluster(gpus, ports)), Templates()
    route = strided_routes(Router(layout, templates, Draws(seed)))
    rings, servers = route.shape
    steps = 2 * (servers - 1)
    flow = np.arange(rings * steps * servers, dtype=np.int32).reshape(rings, steps, servers)
    followed = np.zeros(flow.shape, np.int64)
    followed[:, :-1] = 2
    next_step = flow[:, 1:]
    after = np.stack([next_step, np.roll(next_step, -1, axis=2)], axis=-1)
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
    """All-reduces in rings. One hop of each ring uses link 0; other hops have their own links.

    Ring r begins ``r * late_ns`` after the first ring. Links carry 50 bytes/ns. Flows are in the
    order of ring, step and hop; a chunk waits as in :func:`strided_rings`.
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
    """Flows over one to five random links, which wait for up to three random earlier flows.

    Capacities [bytes/ns] and sizes [bytes] are uniform on a logarithmic scale, and latencies are
    at most 5 us. Each flow has its own route.
    """
    draw = np.random.default_rng(seed)
    capacity = np.exp(draw.uniform(np.log(1), np.log(50), links))
    templates = Templates()
    for _ in range(flows):
        links_used = draw.choice(links, draw.integers(1, min(links, 5) + 1), replace=False)
        templates.add(links_used.tolist())
    size = np.exp(draw.uniform(np.log(2e5), np.log(5e7), flows)).astype(np.int64)
    latency = draw.integers(0, 5_000, flows)
    waits = np.minimum(draw.integers(0, 4, flows), np.arange(flows))
    before = [draw.choice(i, count, replace=False) for i, count in enumerate(waits)]
    route = np.arange(flows, dtype=np.int32)
    return chained(capacity, templates, route, size, latency, before)
