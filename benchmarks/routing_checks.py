"""What every kind of routing costs the simulator."""

from __future__ import annotations

import statistics
import time
from typing import Any

from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.simulate import simulated

KINDS: dict[str, Any] = {
    "ecmp": "ecmp",
    "flowlet": "flowlet",
    "adaptive, per message": {"kind": "adaptive", "per": "message"},
    "adaptive, per burst": "adaptive",
    "spray": "spray",
}


def routing() -> dict[str, str]:
    """Compare the cost of each kind of routing with that of ecmp."""
    costs = _costs()
    rows = [[name, f"{cost:.2f}", f"{cost / costs['ecmp']:.2f}"] for name, cost in costs.items()]
    head = ["routing", "CPU time [s]", "of ecmp"]
    return {"table": table(head, rows, numbers_right=True)}


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
            start_s = time.process_time()
            with simulated(Scenario.model_validate(values)):
                if run:  # the first one compiles
                    spent[name].append(time.process_time() - start_s)
    return {name: statistics.median(times) for name, times in spent.items()}
