"""What every kind of routing costs the simulator."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from page import Section
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate

KINDS: dict[str, Any] = {
    "ecmp": "ecmp",
    "flowlet": "flowlet",
    "adaptive, per message": {"kind": "adaptive", "per": "message"},
    "adaptive, per burst": "adaptive",
    "spray": "spray",
}


def routing() -> Section:
    """Compare the cost of each kind of routing with that of ecmp."""
    costs = _costs()
    rows = [[name, f"{cost:.2f}", f"{cost / costs['ecmp']:.2f}"] for name, cost in costs.items()]
    text = table(["routing", "CPU time [s]", "of ecmp"], rows, numbers_right=True)
    text += """
CPU time of one process for a job on 512 GPUs with 64 uplinks a leaf, 20 steps: the median of five
runs in turn. Messages that share links in another way end at other times, so the events differ too.
"""
    return Section("Routing", text)


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
