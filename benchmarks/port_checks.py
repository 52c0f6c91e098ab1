"""Compare NICs of several ports, and NVLink domains, with closed forms."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from own_checks import ring_ends
from page import Section, percent
from prism_sim.cluster.layout import GBPS
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.scenario.cluster import Cluster
from prism_sim.simulate import simulate

Case = tuple[str, float, float]
"""What is compared, its closed form [ns], and ours [ns]."""

SIZE = 1 << 30
HOP_NS = 500
PORTS = (1, 2, 4)

MODEL = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
TP, NICS = 8, 4
"""Ranks of the tensor-parallel group, and GPUs and NICs of a server."""
BYTES = 2 * 2048 * 2048
"""Activations of a micro-batch: 2,048 tokens, 2,048 wide, in bf16."""


def ports_and_domains() -> Section:
    """Compare rings over NICs with failed ports, and steps over NVLink domains."""
    rows = [
        [name, f"{expected_ns:,.2f}", f"{found_ns:,.0f}", percent(abs(found_ns / expected_ns - 1))]
        for name, expected_ns, found_ns in [*ring_cases(), *domain_cases()]
    ]
    text = table(["case", "closed form [ns]", "ours [ns]", "difference"], rows, numbers_right=True)
    text += """
The rings are all-reduces of 1 GiB over 4 servers with one NIC of 400 Gbit/s. Each of k queue pairs
has a k-th of the bytes and a port of its own. If only w ports work, the busiest one carries
ceil(k / w) queue pairs: 2 (n - 1) (S ceil(k / w) / (n B) + L). The step is that of a job of one
tensor-parallel group of 8 GPUs on servers of 4 GPUs and 4 NICs. Its 8 layers have four all-reduces
of the activations each. In one NVLink domain a ring takes 2 (n - 1) (S / (n B) + L) and leaves no
record; over two servers, 4 rings share the bytes, each is as fast as its NICs, and its other hops
hide their latency: 2 (n - 1) S / (4 n B).
"""
    return Section("Ports of a NIC, and NVLink domains", text)


def ring_cases() -> list[Case]:
    """All-reduces over NICs of several ports, with all and with some of them."""
    return [
        (f"ring of 4, {working} of {ports} ports", *_ring_ns(ports, working))
        for ports in PORTS
        for working in range(1, ports + 1)
    ]


def _ring_ns(ports: int, working: int) -> tuple[float, float]:
    fabric = {"kind": "tor", "leaf_ports": 4, "planes": ports, "hop_latency_ns": HOP_NS}
    values = {"servers": 4, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": ports}
    of = Cluster.model_validate({**values, "fabric": fabric})
    (end_ns,) = ring_ends(of, [range(4)], SIZE, failed_leaves=range(working, ports)).tolist()
    on_busiest = -(-ports // working)
    return 2 * 3 * (SIZE * on_busiest / (4 * 400 * GBPS) + 2 * HOP_NS), float(end_ns)


def domain_cases() -> list[Case]:
    """What a step takes longer if its tensor-parallel group spans servers, not one domain."""
    inside_ns = 2 * (TP - 1) * (BYTES / TP / (3600 * GBPS) + 25)
    across_ns = 2 * (TP - 1) * BYTES / (NICS * TP) / (400 * GBPS)
    expected_ns = 4 * MODEL["layers"] * (across_ns - inside_ns)
    (inside, none), (across, _) = step_of(TP), step_of(None)
    name = f"step of a tensor group over two servers, less that inside a domain ({none} records)"
    return [(name, expected_ns, across - inside)]


def step_of(domain: int | None) -> tuple[int, int]:
    """Length of a step [ns], and number of records, with NVLink domains of so many GPUs."""
    cluster: dict[str, Any] = {"servers": 2, "gpus_per_server": NICS, "nics_per_server": NICS}
    job = {"name": "a", "model": MODEL, "tp": TP, "micro_batches": 1, "steps": 2}
    cluster |= {"nvlink_domain": domain}
    scenario = Scenario.model_validate({"cluster": cluster, "jobs": [job]})
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        simulate(scenario, run)
        records, steps = pq.read_metadata(run.flows).num_rows, run.truth("steps")
    return int((steps["end_ns"] - steps["start_ns"]).max()), records
