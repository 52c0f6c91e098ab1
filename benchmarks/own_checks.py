"""Compare the fabric with closed forms, exact recursions and published measurements."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from flowset import chained
from page import Section, percent
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Hop, Network
from prism_sim.cluster.program import Program
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import TRAIN
from prism_sim.draws import Draws
from prism_sim.render.markdown import table
from prism_sim.scenario.cluster import Cluster
from prism_sim.training.collectives import ALGORITHMS, Group
from prism_sim.training.collectives.ring import Ring
from workloads import GPUS_PER_SERVER, RING_BYTES, cluster, strided_rings

sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
from chunk_ring import end_of_ring  # shared with the tests, not installed

B = 50.0
"""Bytes a nanosecond: 400 Gbit/s."""
L_NS = 2_000
SEEDS = range(20)


class IgnoringObserver:
    """An observer that ignores all trains, because only ends are compared here."""

    def observe(self, trains: NDArray[np.void]) -> None:
        assert trains.dtype == TRAIN


def ring_ends(
    of: Cluster,
    groups: Sequence[Sequence[int]],
    size_bytes: int,
    seed: int = 0,
    failed_leaves: Sequence[int] = (),
) -> NDArray[np.int64]:
    """End of the ring all-reduce of each group [ns]; all start at the same time."""
    env, layout, templates = Clock(), Layout(of), Templates()
    fabric = Fabric(env, layout.capacity, templates)
    router = Router(layout, templates, Draws(seed))
    router.fail_leaves(failed_leaves)
    network = Network(env, layout, router, fabric, IgnoringObserver())  # type: ignore[arg-type]
    end_ns = np.zeros(len(groups), np.int64)

    def note(number: int, _: simpy.Event) -> None:
        end_ns[number] = env.now

    for number, gpus in enumerate(groups):
        ready = [0] * len(gpus)
        for part in ALGORITHMS["ring"](Group(gpus, Connection("", "dp")), network):
            event = env.event()
            assert event.callbacks is not None
            event.callbacks.append(partial(note, number))
            part.start("all_reduce", size_bytes, ready, event)
    env.run()
    return end_ns


def one_leaf(gpus: int) -> Cluster:
    """Servers with one GPU each on one leaf switch, with 2 us from NIC to NIC."""
    fabric = {"kind": "tor", "leaf_ports": gpus, "hop_latency_ns": L_NS / 2}
    alone = {"gpus_per_server": 1, "nics_per_server": 1}
    return Cluster.model_validate({"servers": gpus, "nic_gbps": 400, **alone, "fabric": fabric})


def closed_forms() -> Section:
    """Compare flows on one link, a limited flow, and rings of equal hops with closed forms."""
    rows = []
    for name, expected_ns, found_ns in [*_flows(), *_rings()]:
        difference = abs(found_ns - expected_ns) / expected_ns
        rows.append([name, f"{expected_ns:,.2f}", f"{found_ns:,.0f}", percent(difference)])
    text = table(["case", "closed form [ns]", "ours [ns]", "difference"], rows, numbers_right=True)
    text += """
The rings are all-reduces of 1 GiB with 50 bytes/ns and 2 us per hop: 2 (n - 1) (S / (n B) + L).
ASTRA-sim's analytical backend gives the same within 0.05 %. The only reason for a difference is
rounding: chunks are whole bytes, rounded up, and times are whole nanoseconds.
"""
    return Section("Closed forms", text)


def _flows() -> list[tuple[str, float, float]]:
    size = 1_000_000
    cases = [("one flow of 1 MB, 50 bytes/ns, 2 us of latency", size / B + L_NS, _shared(1, size))]
    cases += [
        (f"{k} such flows on one link", k * size / B + L_NS, _shared(k, size))
        for k in (2, 3, 7, 64)
    ]
    narrow = Templates()
    narrow.add([0, 1])
    narrow.add([0])
    end_ns = _together(np.array([B, B / 5]), narrow, np.array([0, 1], np.int32), size).run()
    cases.append(
        ("one of two, which another link limits to a fifth", size / (B / 5) + L_NS, end_ns[0])
    )
    cases.append(("the other one, with the rest of the link", size / (B * 4 / 5) + L_NS, end_ns[1]))
    return cases


def _shared(flows: int, size_bytes: int) -> float:
    templates = Templates()
    templates.add([0])
    of_all = np.zeros(flows, np.int32)
    return float(_together(np.array([B]), templates, of_all, size_bytes).run().max())


def _together(
    capacity: NDArray[np.float64], templates: Templates, template: NDArray[np.int32], size: int
) -> Program:
    flows = len(template)
    size_bytes, latency_ns = np.full(flows, size), np.full(flows, L_NS)
    return chained(capacity, templates, template, size_bytes, latency_ns, [[]] * flows)


def _rings() -> list[tuple[str, float, float]]:
    cases = []
    for n in (8, 64, 256, 1024):
        expected = 2 * (n - 1) * (RING_BYTES / (n * B) + L_NS)
        found = ring_ends(one_leaf(n), [range(n)], RING_BYTES)[0]
        cases.append((f"ring of {n:,}", expected, float(found)))
    return cases


def chunks_of_unequal_hops(draws: int = 100) -> Section:
    """Compare the coupled ring with the recursion over chunks, for hops of random rates."""
    random = np.random.default_rng(0)
    rows = []
    for n, size_bytes, low in product((4, 16, 64, 256), (RING_BYTES, 2**24), (0.9, 0.1)):
        early = []
        for _ in range(draws):
            rate = B * random.uniform(low, 1, n)
            latency_ns = random.uniform(0, 2 * L_NS, n)
            chunk_bytes = -(-size_bytes // n)
            own_ns = (chunk_bytes / rate).tolist()
            exact = end_of_ring(own_ns, latency_ns.tolist(), 2 * (n - 1))
            early.append((exact - _coupled_ns(rate, latency_ns, size_bytes)) / exact)
        spread = "within 10 %" if low == 0.9 else "within a factor of 10"
        rows.append([f"{n}", f"{size_bytes >> 20:,} MiB", spread, percent(float(np.mean(early))),
                     percent(max(early))])  # fmt: skip
    text = "Time by which the coupled ring ends before the last chunk of the recursion:\n\n"
    text += table(
        ["hops", "size", "rates of the hops", "mean", "largest"], rows, numbers_right=True
    )
    text += """
Each row has 100 rings with newly drawn rates and latencies (up to 4 us). The coupled ring has the
rate of the steady state from the start. The difference is the time until the steady state, which is
less than the time of a chunk once round the ring. It is zero for equal hops, and negative only by
rounding.
"""
    return Section("A ring of unequal hops, chunk by chunk", text)


def _coupled_ns(rate: NDArray[np.float64], latency_ns: NDArray[np.float64], size_bytes: int) -> int:
    """End of the coupled ring if every hop has a link of its own."""
    env = Clock()
    fabric = Fabric(env, rate, Templates())
    hops = [Hop(i, (i,), latency) for i, latency in enumerate(latency_ns.tolist())]
    network: Any = SimpleNamespace(fabric=fabric, observer=IgnoringObserver())
    event = env.event()
    ring = Ring(hops, range(len(hops)), 1, network)
    ring.start("all_reduce", size_bytes, [0] * len(hops), event)
    env.run(until=event)
    return env.now


def rings_that_collide() -> Section:
    """Compare coupled strided rings that collide by ECMP with the same rings flow by flow."""
    rows = []
    for gpus in (64, 256, 1024):
        early: list[float] = []
        delayed = 0
        groups = [range(k, gpus, GPUS_PER_SERVER) for k in range(GPUS_PER_SERVER)]
        for seed in SEEDS:
            coupled = ring_ends(cluster(gpus), groups, RING_BYTES, seed)
            chunked = strided_rings(gpus, seed=seed, link_ns=0).run()
            exact = chunked.reshape(GPUS_PER_SERVER, -1).max(axis=1)
            early += ((exact - coupled) / exact).tolist()
            delayed += int((exact > 1.01 * _alone_ns(gpus)).sum())
        error = np.abs(early)
        rows.append([f"{gpus:,}", f"{len(early)}", f"{delayed}", percent(error.mean()),
                     f"{(error > 1e-3).sum()}", percent(min(early)), percent(max(early))]
                    )  # fmt: skip
    head = ["GPUs", "rings", "delayed by others", "mean error", "above 0.1 %", "least", "most"]
    text = table(head, rows, numbers_right=True)
    text += """
Eight strided rings of 1 GiB over 20 hash seeds are simulated in two ways: each ring as one entity,
and with a flow for every chunk and hop (without latency, so that only sharing counts). A positive
error is an end that is too early. Rings that delay each other on one uplink are exact. There is one
exception: a ring shares a link with a second ring, and a third ring delays the second one more
on another link. As entities, the two rings share the link as steady streams. In reality the
chunks of the slower ring come in bursts. The faster ring competes with some of them, and has
the link alone between them. It cannot use all of this free capacity, because a ring cannot send
ahead.
"""
    return Section("Rings that collide, chunk by chunk", text)


def _alone_ns(gpus: int) -> float:
    servers = gpus // GPUS_PER_SERVER
    return 2 * (servers - 1) * RING_BYTES / servers / B


PUBLISHED = {4: 338.0, 16: 91.7, 64: 91.4, 256: 86.9, 1024: 35.5, 2048: 61.8}
"""Bus bandwidth of an all-reduce of 1 GiB on GH200 [GB/s], by GPUs (public nccl-tests)."""


def nccl_tests() -> Section:
    """Compare the published row of nccl-tests with our rings on such nodes."""
    rows = []
    for gpus, published in PUBLISHED.items():
        row = [f"{gpus:,}", f"{published:.1f}"]
        for efficiency in ("ideal", "measured"):
            ours = [_bus_gb_per_s(gpus, efficiency, seed) for seed in range(5)]
            row.append(f"{np.mean(ours):.1f} ({min(ours):.1f} to {max(ours):.1f})")
        rows.append(row)
    head = ["GPUs", "measured", "ours, links only", "ours, `efficiency: measured`"]
    text = table(head, rows, numbers_right=True)
    text += """
The table has bus bandwidth in GB/s; ours is the mean and range over five hash seeds. The source
does not name the machine. We assume the nodes of Alps (CSCS): four GH200, each with a NIC of
200 Gbit/s, under leaves of 64 ports and four spines. Nothing is tuned to these figures. Real runs
lose bandwidth to other jobs, to the protocol and to the placement, and they vary: 1,024 GPUs were
slower than 2,048.
"""
    return Section("nccl-tests on GH200, 1 GiB", text)


def _bus_gb_per_s(gpus: int, efficiency: str, seed: int) -> float:
    node = {"gpus_per_server": 4, "nics_per_server": 4, "nic_gbps": 200, "efficiency": efficiency}
    of = Cluster.model_validate({"servers": gpus // 4, **node})
    end_ns = float(ring_ends(of, [range(gpus)], RING_BYTES, seed)[0])
    return 2 * (gpus - 1) / gpus * RING_BYTES / end_ns
