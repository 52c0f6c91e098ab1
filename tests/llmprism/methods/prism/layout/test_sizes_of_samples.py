"""Layouts where an exporter samples packets, and does not say so."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, simulate

MODEL = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}


@pytest.mark.parametrize("one_in", [1000, 2000])
def test_few_sizes_that_repeat_show_no_members_of_a_ring(tmp_path, one_in):
    """Bytes are multiples of what a sample stands for, whatever the members of a ring."""
    world = {
        "name": "sampled",
        "seed": 31,
        "cluster": {
            "servers": 4,
            "gpus_per_server": 8,
            "nics_per_server": 8,
            "fabric": {"kind": "tor", "leaf_ports": 32, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "dp": 4, "tp": 8, "micro_batches": 2, "steps": 12,
                "zero_stage": 3, "mfu": 0.4, "compute_jitter": 0.01, "step_overhead_ms": 5,
            }
        ],
        "collector": {"idle_gap_us": 1000, "effects": [{"kind": "sampling", "one_in": one_in}]},
    }  # fmt: skip
    run = Run(tmp_path)
    simulate(Scenario.model_validate(world), run)
    pq.write_table(pq.read_table(run.flows).replace_schema_metadata(None), run.flows)
    layout = diagnose(run.flows, run.topology, method="prism").layouts.iloc[0]
    assert (layout["dp"], layout["pp"], layout["tp"]) == (-1, 1, -1)
    ways = json.loads(layout["evidence"])["one_of"]
    assert {"dp": 4, "tp": 8} in [{axis: way[axis] for axis in ("dp", "tp")} for way in ways]
    assert layout["confidence"] <= 0.6
