"""Hostile scenarios: the results that ``prism`` must infer in each group, from flows only."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import prism_sim as ps

HOSTILE = Path(__file__).parents[2] / "scenarios" / "hostile"
EXACT = [
    "buckets", "clean", "experts", "host-work", "late-gathers", "lengths", "pauses", "queue-pairs", "reduces",
    "sampled", "sharded", "tenants", "three-steps",
]  # fmt: skip
DP_END = 0.003


@cache
def scored(family: str, seed: int, folder: Path):
    """The score and the layouts of a family; the folder is that of the session."""
    run = ps.run(HOSTILE / f"{family}.yaml", seed=seed, out=folder / f"{family}-{seed}")
    return run.score, run.diagnosis.layouts


@pytest.fixture(scope="session")
def score_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return lambda family, seed=11: scored(family, seed, folder)


@pytest.mark.parametrize("family", EXACT)
def test_jobs_pairs_and_steps_are_exact(family, score_of):
    score, _ = score_of(family)
    assert score["jobs"]["accuracy"] == 1
    assert score["pairs"]["accuracy"] == 1
    assert score["timeline"]["coverage"] == 1
    assert score["timeline"]["steps_unexplained"] == 0
    assert score["timeline"]["dp_end_error_mean"] <= DP_END


def test_records_longer_than_a_step_give_only_jobs_and_a_reason(score_of):
    score, layouts = score_of("long-records")
    assert score["jobs"]["accuracy"] == 1
    assert score["timeline"]["coverage"] == 0
    assert set(score["pairs"]["confusion"]) == {"dp", "pp"}
    assert all(set(kinds) == {"unknown"} for kinds in score["pairs"]["confusion"].values())
    for text in layouts["evidence"]:
        assert {"refused", "would_allow"} <= set(json.loads(text))
