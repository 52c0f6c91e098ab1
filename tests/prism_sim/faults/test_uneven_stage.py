"""A stage that is too long in every step: named, with what an even division would save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import prism_sim as ps
from prism_sim.toolkit import Run

ST = Path(__file__).resolve().parents[4] / "shared" / "data" / "public" / "trace-ST.parquet"
CLUSTER = "cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, fabric: {kind: rail}}\n"
JOB = """\
jobs:
  - name: train
    model: {layers: 8, hidden: 2048, heads: 16, vocab: 1000, sequence_length: 8192}
    dp: 2
    pp: 4
    micro_batches: %d
    schedule: %s
    steps: 12
    compute_jitter: 0.01
    stage_factors: %s
"""
TRACE = """\
jobs:
  - name: measured
    model: {layers: 8, hidden: 4096, heads: 32, vocab: 32000, sequence_length: 2048}
    trace: {kind: timeline, file: %s}
    overlap_gradients: false
    sync_embeddings: true
    gradient_norm: true
"""


def run(folder: Path, text: str) -> Run:
    folder.mkdir()
    (folder / "world.yaml").write_text(CLUSTER + text)
    return Run(ps.run(folder / "world.yaml", out=folder / "run").folder)


def uneven(found: Run) -> list[dict[str, Any]]:
    findings = pd.read_parquet(found.diagnosis_folder / "findings.parquet")
    return findings[findings["cause"] == "uneven_stage"].to_dict("records")


def step_ns(found: Run) -> float:
    steps = found.truth("steps")
    return float(steps[steps["rank"] == 0].sort_values("step")["end_ns"].diff().median())


@pytest.mark.parametrize(
    ("schedule", "micro_batches", "stage"),
    [
        (*work, stage)
        for work in (("1f1b", 4), ("1f1b", 8), ("gpipe", 8), ("gpipe", 16))
        for stage in (1, 2, 3)
    ],
)
def test_a_long_stage_is_named_with_its_cost(tmp_path, schedule, micro_batches, stage):
    factors = [2.5 if one == stage else 1.0 for one in range(4)]
    long = run(tmp_path / "long", JOB % (micro_batches, schedule, factors))
    level = run(tmp_path / "level", JOB % (micro_batches, schedule, [1.375] * 4))
    (one,) = uneven(long)
    assert (one["culprit_kind"], one["culprit"]) == ("stage", f"job-0 stage {stage}")
    assert (one["first_step"], one["last_step"]) == (0, 11)
    evidence = json.loads(one["evidence"])
    assert evidence["step_share"] == pytest.approx(step_ns(long) / step_ns(level) - 1, abs=0.05)
    assert uneven(level) == []


def test_a_first_stage_that_works_while_it_would_wait_costs_little(tmp_path):
    """Its forward passes run ahead of the first gradient, in time that others lose anyway."""
    long = run(tmp_path / "long", JOB % (4, "1f1b", [2, 1, 1, 1]))
    level = run(tmp_path / "level", JOB % (4, "1f1b", [1.25] * 4))
    assert step_ns(long) < 1.05 * step_ns(level)
    assert uneven(long) == []


@pytest.mark.parametrize("tied", ["false", "true"])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_heavy_output_layer_is_no_finding(tmp_path, schedule, tied):
    """Two layers of 12.6 million parameters each beside an output layer of 51 million."""
    vocab = f"vocab: 50000, tied_embeddings: {tied}"
    heavy = (JOB % (12, schedule, [1] * 4)).replace("vocab: 1000", vocab)
    assert uneven(run(tmp_path / "heavy", heavy.replace("hidden: 2048", "hidden: 1024"))) == []


@pytest.mark.skipif(not ST.exists(), reason="needs the published timeline in shared/data/public")
def test_the_long_last_stage_of_the_published_timeline_is_the_finding(tmp_path):
    """Published: 1.18 times as long as with passes of mean length, of all kinds."""
    found = run(tmp_path / "ST", TRACE % ST)
    findings = pd.read_parquet(found.diagnosis_folder / "findings.parquet")
    assert findings[["cause", "culprit"]].to_numpy().tolist() == [["uneven_stage", "job-0 stage 3"]]
    assert json.loads(findings["evidence"][0])["step_share"] == pytest.approx(0.18, abs=0.02)
