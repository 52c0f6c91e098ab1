"""Records that are longer than a step: jobs are still right, and nothing else is claimed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import llmprism
from llmprism.methods.prism.jobs.silent import silent_of
from llmprism.methods.prism.jobs.stepless import NO_STEPS, Stepless, with_silent

CAPTURES = Path(__file__).parents[4] / "fixtures" / "captures"


def unknown_or_right(pairs, truth):
    """Whether every kind but "unknown" and "other" is that of the truth."""
    both = pairs.merge(truth.astype(str), on=["src", "dst"], suffixes=("", "_true"), how="left")
    named = both[~both["kind"].isin(["unknown", "other"])]
    return (named["kind"] == named["kind_true"]).all()


@pytest.mark.parametrize(
    ("case", "sizes"), [("b_dp4pp2", [(-1, -1)]), ("c_two_jobs", [(-1, -1), (4, 1)])]
)
def test_one_record_for_each_connection_shows_jobs_and_no_steps(case, sizes):
    """A ring shows a group. Two of them may be stages, or tensor-parallel groups."""
    flows = pd.read_parquet(CAPTURES / case / "flows.parquet")
    keys = ["src", "dst", "src_port", "dst_port", "protocol"]
    whole = flows.groupby(keys, observed=True, as_index=False).agg(
        {"start_ns": "min", "end_ns": "max", "bytes": "sum", "payload": "sum", "packets": "sum"}
    )
    found = llmprism.diagnose(whole, CAPTURES / case / "topology.json", method="prism")
    ranks = pd.read_parquet(CAPTURES / case / "truth" / "ranks.parquet")
    true = {frozenset(part.astype(str)) for _, part in ranks.groupby("job")["address"]}
    jobs = {frozenset(part) for _, part in found.jobs.groupby("job")["address"]}
    assert jobs == true
    assert len(found.steps) == len(found.findings) == 0
    assert not found.verdict.can_tell
    assert unknown_or_right(
        found.pairs, pd.read_parquet(CAPTURES / case / "truth" / "pairs.parquet")
    )
    assert (found.layouts[["tp", "micro_batches"]] == -1).all().all()
    assert sorted(zip(found.layouts["dp"], found.layouts["pp"], strict=True)) == sizes
    assert "refused" in json.loads(found.layouts["evidence"].iloc[0])


def test_nics_at_a_leaf_that_exports_nothing_are_of_the_job_of_their_servers():
    """Another leaf may export what they receive, but nothing that they send is recorded."""
    ends = [SimpleNamespace(switch=f"leaf{i % 2}", nic=i % 2) for i in range(6)]
    topology = SimpleNamespace(servers=np.arange(6) // 2, endpoints=ends)
    flows = SimpleNamespace(senders=np.array([0, 2, 4]))
    jobs = [Stepless(np.array([2, 4], np.int32), NO_STEPS)]
    (job,) = with_silent(jobs, topology, flows)
    assert job.endpoints.tolist() == [2, 3, 4, 5]
    assert silent_of([jobs[0].endpoints], topology, flows.senders)[0].tolist() == [3, 5]
