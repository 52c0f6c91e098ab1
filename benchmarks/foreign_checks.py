"""Compare the fabric with others: SimGrid flow by flow, and published measurements of NCCL.

SimGrid and the fabric run the same file, and every end of a flow is compared.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import peer
from flowset import read_answer, read_flow_set, write_answer, write_flow_set
from prism_sim.cluster.program import Program
from prism_sim.render.markdown import table
from workloads import FIGURES, SPREAD, contended_rings, random_flows, strided_rings

sys.path.append(str(Path(__file__).parent.parent / "tests" / "helpers"))
from one_ring import GIB, ring_ns  # shared with the tests, not installed

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "foreign"
SEEDS = range(20)


def flow_sets() -> dict[str, Program]:
    """All sets of flows for SimGrid, by name."""
    sets = {}
    for gpus in (64, 256, 1024):
        sets[f"rings of {gpus:,} GPUs, equal chunks"] = strided_rings(gpus, seed=1)
        sets[f"rings of {gpus:,} GPUs, chunks within 20 %"] = strided_rings(gpus, SPREAD, seed=1)
    for seed in range(5):
        sets[f"random, 20 links, seed {seed}"] = random_flows(300, 20, seed)
    sets["random, 10 links"] = random_flows(1_000, 10, 5)
    sets["random, 100 links"] = random_flows(3_000, 100, 6)
    return sets


def same_flows() -> dict[str, str]:
    """Compare the ends of all flows in SimGrid and here."""
    rows = []
    for name, program in flow_sets().items():
        rough, fine = _against_simgrid(program)
        rows.append([name, f"{len(program.template):,}", _ms(program.run()), percent(rough.max()),
                     percent(rough.mean()), percent(fine.max())])  # fmt: skip
    head = ["flows", "number", "last end [ms]", "largest", "mean", "largest, finer clocks"]
    return {"table": table(head, rows, numbers_right=True)}


def _against_simgrid(program: Program) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Relative difference of every end from SimGrid's, with usual and with finer clocks."""
    finer = replace(program, capacity=program.capacity / 1e3, latency_ns=program.latency_ns * 1000)
    theirs = simgrid(program)
    finer_theirs = simgrid(program, "--cfg=surf/precision:1e-12")
    rough = np.abs(program.run() - theirs) / theirs
    return rough, np.abs(finer.run() / 1e3 - finer_theirs) / finer_theirs


def simgrid(program: Program, *options: str) -> NDArray[np.float64]:
    """The end of each flow of ``program`` in SimGrid [ns]."""
    with tempfile.TemporaryDirectory() as folder:
        flow_set, answer = Path(folder) / "flows", Path(folder) / "ends"
        write_flow_set(program, flow_set)
        peer.run(flow_set, answer, *options)
        return read_answer(answer)


def contention() -> dict[str, str]:
    """Compare SimGrid's ends of the strided rings with ours over many hash seeds."""
    rows = []
    for gpus, theirs in FIGURES.items():
        ends = np.array([strided_rings(gpus, seed=seed).run().max() for seed in SEEDS]) / 1e6
        rows.append([f"{gpus:,}", f"{theirs:g}", f"{ends.mean():.3f}", f"{np.median(ends):.3f}",
                     f"{ends.min():.3f}", f"{ends.max():.3f}"])  # fmt: skip
    head = ["GPUs", "SimGrid, its hash [ms]", "ours, mean", "median", "least", "most"]
    return {"table": table(head, rows, numbers_right=True)}


PUBLISHED = {4: 338.0, 16: 91.7, 64: 91.4, 256: 86.9, 1024: 35.5, 2048: 61.8}
"""Bus bandwidth of an all-reduce of 1 GiB on GH200 [GB/s], by GPUs (public nccl-tests)."""


def nccl_tests() -> dict[str, str]:
    """Compare the published row of nccl-tests with our rings on such nodes."""
    rows = []
    for gpus, published in PUBLISHED.items():
        row = [f"{gpus:,}", f"{published:.1f}"]
        for efficiency in ("ideal", "measured"):
            ours = [_bus_gb_per_s(gpus, efficiency, seed) for seed in range(5)]
            row.append(f"{np.mean(ours):.1f} ({min(ours):.1f} to {max(ours):.1f})")
        rows.append(row)
    head = ["GPUs", "measured", "ours, links only", "ours, `efficiency: measured`"]
    return {"table": table(head, rows, numbers_right=True)}


def _bus_gb_per_s(gpus: int, efficiency: str, seed: int) -> float:
    node = {"gpus_per_server": 4, "nics_per_server": 4, "nic_gbps": 200, "efficiency": efficiency}
    return 2 * (gpus - 1) / gpus * GIB / ring_ns({"servers": gpus // 4, **node}, gpus, seed=seed)


def write_fixtures() -> None:
    """Write small flow sets and SimGrid's answers, which the tests compare with ours."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    remark = "Regenerate: python benchmarks/crosscheck.py --fixtures"
    small = {
        "random": random_flows(300, 20, 7),
        "rings": strided_rings(64, SPREAD, 1, ports=16),
        "contended": contended_rings(rings=3, hops=9, late_ns=1_000_000),
    }
    for name, program in small.items():
        path = FIXTURES / f"{name}.flows.txt"
        write_flow_set(program, path, remark)
        ends = simgrid(read_flow_set(path))
        write_answer(ends, FIXTURES / f"{name}.ends.txt", f"SimGrid 3.32, CM02.\n{remark}")


def percent(fraction: float) -> str:
    """A fraction as a percentage of two significant digits: 0.00012345 is 0.012 %."""
    value = 100 * float(fraction)
    return f"{value:.2g} %" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e} %"


def _ms(end_ns: NDArray[np.int64]) -> str:
    return f"{end_ns.max() / 1e6:,.3f}"
