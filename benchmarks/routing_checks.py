"""Compare every kind of routing with closed forms and exact fractions, and measure its cost."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from page import Section, percent
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.scenario.cluster import Cluster
from prism_sim.simulate import simulate

sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
from reference_maxmin import rates  # shared with the tests, not installed
from routed import Wires, even_shares, two_leaves

LINE = 50.0
"""Bytes a nanosecond: 400 Gbit/s."""
WINDOW = 100
DRAWS = 40
KINDS: dict[str, Any] = {
    "ecmp": "ecmp",
    "flowlet": "flowlet",
    "adaptive, per message": {"kind": "adaptive", "per": "message"},
    "adaptive, per burst": "adaptive",
    "spray": "spray",
}


def routing() -> Section:
    """Compare rates with closed forms, with exact fractions, and the cost with that of ecmp."""
    rows = [
        [name, f"{expected:.6f}", f"{found:.6f}", percent(abs(found / expected - 1))]
        for name, expected, found in _forms()
    ]
    text = table(["one message", "closed form", "ours", "difference"], rows, numbers_right=True)
    text += """
Rates are in bytes/ns. A NIC of 50 bytes/ns sends from one leaf to another over k uplinks, which
together are as fast as the NIC. One uplink has the share r of its rate, or loses packets with the
probability p. Spraying evenly gives r x 50: all of the message waits for the slow path. Adaptive
routing loses what the path has less: (k - 1 + r) / k x 50. A window of W = 100 packets is repeated
for each loss (go-back-N), of which a k-th cross the link: 50 / (1 + p W / k); or the lost packet
alone (selective repeat): 50 / (1 + p / (1 - p) / k).
"""
    found = [[name, f"{flows:,}", percent(worst)] for name, flows, worst in _exact()]
    text += "\n" + table(["routing", "rates", "largest difference"], found, numbers_right=True)
    text += """
The rates of up to eight flows on random clusters of two and three tiers, with two slow links,
compared with progressive filling in exact fractions over all single links. Where a message is
split, the shares are those of an even split at each switch, also in fractions.
"""
    costs = _costs()
    rows = [[name, f"{cost:.2f}", f"{cost / costs['ecmp']:.2f}"] for name, cost in costs.items()]
    text += "\n" + table(["routing", "CPU time [s]", "of ecmp"], rows, numbers_right=True)
    text += """
CPU time of one process for a job on 512 GPUs with 64 uplinks a leaf, 20 steps: the median of five
runs in turn. Messages that share links in another way end at other times, so the events differ too.
"""
    return Section("Routing", text)


def _forms() -> Iterator[tuple[str, float, float]]:
    for k in (2, 8, 64):
        for r in (0.5, 0.9):
            yield f"spray, k = {k}, r = {r}", LINE * r, _rate("spray", k, speed=r)
            adaptive = LINE * (k - 1 + r) / k
            yield f"adaptive, k = {k}, r = {r}", adaptive, _rate("adaptive", k, speed=r)
    for p in (0.001, 0.005, 0.05):
        for name, repeats in (("go-back-N", p * WINDOW), ("selective repeat", p / (1 - p))):
            expected = LINE / (1 + repeats / 8)
            yield f"spray, k = 8, p = {p}, {name}", expected, _rate("spray", 8, repeats=repeats)
    weighted = {"kind": "spray", "weights": [2, 1, 1, 1]}
    yield "spray by weights 2:1:1:1, k = 4", LINE / 4 / (2 / 5), _rate(weighted, 4)


def _rate(routing: Any, k: int, speed: float = 1.0, repeats: float = 0.0) -> float:
    wires = two_leaves(k, routing)
    link = wires.layout.up(0, 0)
    wires.fabric.set_capacity(link, float(wires.layout.capacity[link]) * speed)
    wires.router.conditions.speed[link] = speed
    wires.router.conditions.repeats[link] = repeats
    template = wires.send(0, 1)
    wires.run()
    return wires.rates()[template]


def _exact() -> Iterator[tuple[str, int, float]]:
    """Kind, number of rates, and largest relative difference to the exact one."""
    for name, routing in KINDS.items():
        random = np.random.default_rng(0)
        differences = [one for _ in range(DRAWS) for one in _differences(routing, random)]
        yield name, len(differences), max(differences)


def _differences(routing: Any, random: np.random.Generator) -> list[float]:
    wires = Wires(_cluster(routing, random))
    nics = len(wires.layout.addresses)
    pairs = {(int(a), int(b)) for a, b in random.integers(0, nics, (8, 2)) if a != b}
    capacity = wires.layout.capacity.copy()
    if routing != "adaptive":  # which spreads by rates, and not evenly
        for link in random.integers(0, len(capacity), 2).tolist():
            capacity[link] *= 0.5
            wires.fabric.set_capacity(link, float(capacity[link]))
    for src, dst in sorted(pairs):
        wires.send(src, dst)
    wires.run()
    active = [(int(t), float(rate)) for t, rate in wires.rates().items()]
    uses = [_uses(wires, template) for template, _ in active]
    exact = rates(capacity.tolist(), uses, [float("inf")] * len(uses))
    return [abs(rate / float(one) - 1) for (_, rate), one in zip(active, exact, strict=True)]


def _uses(wires: Wires, template: int) -> Any:
    """The share of a flow on each single link."""
    if wires.router.splits:
        route = int(wires.fabric.templates.shown[template])
        routes = wires.router.routes
        return even_shares(wires.layout, routes.src[route], routes.dst[route], set())
    links, _ = wires.fabric.templates.links_of(template)
    return dict.fromkeys(links.tolist(), Fraction(1))


def _cluster(routing: Any, random: np.random.Generator) -> Cluster:
    spines, nics = int(random.integers(1, 4)), int(random.choice([1, 2, 4]))
    fabric = {
        "kind": str(random.choice(["rail", "tor"])), "leaf_ports": 4, "spines": spines,
        "uplinks": spines * int(random.integers(1, 3)), "routing": routing,
        "pod_leaves": int(random.integers(1, 3)) if random.random() < 0.5 else None,
    }  # fmt: skip
    hardware = {"servers": int(random.integers(3, 9)), "gpus_per_server": nics}
    return Cluster.model_validate(hardware | {"nics_per_server": nics, "fabric": fabric})


def _costs() -> dict[str, float]:
    """CPU time of the same job under each kind of routing [s]."""
    spent: dict[str, list[float]] = {name: [] for name in KINDS}
    for run in range(6):
        for name, kind in KINDS.items():
            fabric = {"kind": "tor", "leaf_ports": 64, "uplinks": 64, "spines": 16, "routing": kind}
            job = {
                "name": "a", "model": "llama-13b", "dp": 16, "pp": 4, "tp": 8, "micro_batches": 16,
                "steps": 20, "compute_jitter": 0.01,
            }  # fmt: skip
            values = {"name": "cost", "cluster": {"servers": 64, "fabric": fabric}, "jobs": [job]}
            with tempfile.TemporaryDirectory() as folder:
                start_s = time.process_time()
                simulate(Scenario.model_validate(values), Run(Path(folder)))
                if run:  # the first one compiles
                    spent[name].append(time.process_time() - start_s)
    return {name: statistics.median(times) for name, times in spent.items()}
