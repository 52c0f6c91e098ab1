"""Small scenarios that are simulated in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prism_sim.toolkit import Run, Scenario, simulate

TINY_MODEL = {"layers": 8, "hidden": 1024, "heads": 16, "vocab": 32000, "sequence_length": 1024}


def simulate_one(folder: Path, **fields: Any) -> Run:
    """Simulate one job of a tiny model on 4 servers; ``fields`` are those of the job.

    ``cluster``, ``faults``, ``collector`` and ``seed`` go to the scenario instead.
    """
    cluster = {"servers": 4, **fields.pop("cluster", {})}
    rest = {
        key: fields.pop(key) for key in ("faults", "collector", "seed", "storage") if key in fields
    }
    job = {"name": "a", "model": TINY_MODEL, "micro_batches": 4, "steps": 2, **fields}
    scenario = Scenario.model_validate({"name": "test", "cluster": cluster, "jobs": [job], **rest})
    run = Run(folder)
    simulate(scenario, run)
    return run
