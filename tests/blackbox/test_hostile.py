"""Hostile scenarios: the results that ``prism`` must infer in each group, from flows only."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml

import prism_sim as ps

HOSTILE = Path(__file__).parents[2] / "scenarios" / "hostile"
EXACT = [
    "buckets", "clean", "experts", "host-work", "late-gathers", "lengths", "lossy", "pauses",
    "queue-pairs", "reduces", "sampled", "sharded", "tenants", "three-steps",
]  # fmt: skip
OFTEN = ("clean", "lossy", "pauses", "sampled", "sharded", "tenants")
SELDOM = [pytest.param(one, marks=pytest.mark.slow) for one in EXACT if one not in OFTEN]
SILENT = {"lossy", "tenants"}
"""Some NICs send nothing: their ranks have no row in ``jobs``, no steps and no pairs."""
LEAST_PAIRS = {"tenants": 0.99}
"""Messages of a service as large as the job's on one pair of addresses are not separated."""
DP_END = 0.003
SEEDS = (
    31,
    pytest.param(32, marks=pytest.mark.slow),
    *(pytest.param(seed, marks=pytest.mark.full) for seed in (33, 34, 35)),
)


def drawn(family, seed):
    """The values of a world by their path; they depend on its family and seed only."""
    ranges = yaml.safe_load(HOSTILE.with_suffix(".yaml").read_text())
    wanted = ranges["all"] | (ranges["families"][family] or {})
    jobs = len(yaml.safe_load((HOSTILE / f"{family}.yaml").read_text())["jobs"])
    random = np.random.default_rng([seed, *family.encode()])
    each = {key: [str(job) for job in range(jobs)] if "*" in key else [""] for key in wanted}
    return {
        key.replace("*", job): value_in(wanted[key], random) for key in wanted for job in each[key]
    }


def value_in(allowed, random):
    if isinstance(allowed, list):
        return allowed[random.integers(len(allowed))]
    low, high = allowed["from"], allowed["to"]
    whole = isinstance(low, int) and isinstance(high, int)
    return int(random.integers(low, high + 1)) if whole else round(random.uniform(low, high), 4)


@cache
def scored(family: str, seed: int, folder: Path):
    """The score and the layouts of a drawn world; the folder is that of the session."""
    run = ps.run(
        HOSTILE / f"{family}.yaml",
        seed=seed,
        set=drawn(family, seed),
        out=folder / f"{family}-{seed}",
    )
    return run.score, run.diagnosis.layouts


@pytest.fixture(scope="session")
def score_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return lambda family, seed=31: scored(family, seed, folder)


@pytest.mark.parametrize("family", [*OFTEN, *SELDOM])
@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_pairs_and_steps_are_exact(family, seed, score_of):
    score, _ = score_of(family, seed)
    jobs, pairs, silent = score["jobs"], score["pairs"], family in SILENT
    assert jobs["found"] == jobs["true"]
    assert silent or jobs["accuracy"] == 1
    right = pairs["accuracy"] + silent * pairs["missing"] / pairs["total"]
    assert right >= LEAST_PAIRS.get(family, 1)
    if family != "host-work":  # counts as computation without a pipeline: steps are too long
        assert silent or score["timeline"]["coverage"] == 1
        assert score["timeline"]["steps_unexplained"] == 0
    assert score["timeline"]["dp_end_error_mean"] <= DP_END


@pytest.mark.slow
def test_records_longer_than_a_step_give_only_jobs_and_a_reason(score_of):
    score, layouts = score_of("long-records")
    assert score["jobs"]["accuracy"] == 1
    assert score["timeline"]["coverage"] is None  # not answered
    assert set(score["pairs"]["confusion"]) == {"dp", "pp"}
    for true, kinds in score["pairs"]["confusion"].items():
        assert set(kinds) <= {true, "unknown"}
    for text in layouts["evidence"]:
        assert {"refused", "would_allow"} <= set(json.loads(text))
