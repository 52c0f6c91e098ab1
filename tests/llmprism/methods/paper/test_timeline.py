"""Timelines: exact where nothing is noisy, and as documented where it cannot be known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism import Diagnosis
from small_jobs import found, make_world


def errors(world: Any, diagnosis: Diagnosis) -> pd.Series:
    """Relative error of each true step's duration; NaN where a step was not found."""
    both = world.steps.merge(
        diagnosis.steps, on=["address", "step"], how="left", suffixes=("", "_found")
    )
    true = both["end_ns"] - both["start_ns"]
    return ((both["end_ns_found"] - both["start_ns_found"]) / true - 1.0).abs()


PLANS: dict[str, dict[str, Any]] = {
    "two stages": {},
    "four stages": {"pp": 4, "dp": 3},
    "no pipeline": {"pp": 1, "dp": 8},
    "two replicas, both directions at once": {"dp": 2, "pp": 2},
    "slices": {"dp": 2, "pp": 2, "tp": 4},
    "two buckets": {"buckets": (100_000_000, 300_000_000)},
    "thirty buckets": {"buckets": tuple(5_000_000 * k for k in range(10, 40))},
}


@pytest.mark.parametrize("plan", PLANS)
def test_without_noise_every_step_is_exact(plan: str) -> None:
    world = make_world(**PLANS[plan])
    diagnosis = found(world)
    error = errors(world, diagnosis)
    assert error.notna().all()  # coverage 1
    assert len(diagnosis.steps) == len(world.steps)  # and no step too many
    assert error.mean() < 0.003
    assert (diagnosis.steps["end_ns"] == diagnosis.steps["dp_end_ns"]).all()


@pytest.mark.parametrize("seed", range(3))
def test_with_jitter_every_step_is_found(seed: int) -> None:
    world = make_world(pp=4, dp=4, micro=12, jitter=0.03, seed=seed)
    error = errors(world, found(world))
    assert error.notna().all()
    assert error.mean() < 0.003


def test_a_step_starts_where_the_one_before_ended() -> None:
    steps = found(make_world()).steps.sort_values(["address", "step"])
    later = steps["step"].to_numpy() > 0
    before = steps["end_ns"].shift(1).to_numpy()
    np.testing.assert_array_equal(steps["start_ns"].to_numpy()[later], before[later])


def test_unconfirmed_boundaries_lower_the_confidence() -> None:
    steps = found(make_world(steps=6)).steps
    sure = steps.groupby("step")["confidence"].agg(["min", "max"])
    assert (sure.loc[1:4, "min"] > 0.9).all()
    assert (sure.loc[[0, 5], "max"] <= 0.5).all()


def test_traffic_after_the_last_dp_traffic_is_not_a_step() -> None:
    """The record ends in the middle of step 5, before its DP traffic."""
    world = make_world(steps=8)
    cut_off = world.steps.query("step == 5")["start_ns"].max() + 150_000_000
    kept = world.flows[world.flows["start_ns"] < cut_off].reset_index(drop=True)
    assert len(kept) < len(world.flows)
    diagnosis = found(type(world)(kept, world.topology, world.ranks, world.steps, world.kinds))
    assert diagnosis.steps["step"].max() == 4
    last_pp = diagnosis.spans.query("kind == 'pp'")["end_ns"].max()
    assert last_pp <= diagnosis.steps["end_ns"].max()


def merged(intervals: pd.DataFrame) -> list[tuple[int, int]]:
    """Union of intervals in the simplest and slowest form."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(zip(intervals["start_ns"], intervals["end_ns"], strict=True)):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def test_spans_are_the_union_of_a_ranks_flows() -> None:
    world = make_world(jitter=0.02)
    diagnosis = found(world)
    kinds = pd.Series(
        [world.kinds[pair] for pair in zip(world.flows.src, world.flows.dst, strict=True)]
    )
    for address in world.ranks["address"][:3]:
        own = (world.flows["src"] == address) | (world.flows["dst"] == address)
        for kind in ("dp", "pp"):
            spans = diagnosis.spans.query("address == @address and kind == @kind")
            assert merged(spans) == merged(world.flows[own & (kinds == kind)])


def test_compute_is_the_time_between() -> None:
    diagnosis = found(make_world(pp=3))
    spans = diagnosis.spans
    for key, own in spans.groupby(["address", "step"]):
        row = diagnosis.steps.set_index(["address", "step"]).loc[key]
        assert merged(own) == [(row["start_ns"], row["end_ns"])]  # nothing left out
        busy = merged(own[own["kind"] != "compute"])
        free = own[own["kind"] == "compute"]
        for start, end in busy:  # and nothing twice
            assert not ((free["start_ns"] < end) & (free["end_ns"] > start)).any()


def test_compute_and_waiting_follow_the_closed_form() -> None:
    """Uniform 1F1B takes (m + p - 1)(tf + tb); time without traffic is "compute"."""
    world = make_world(pp=4, message=50)  # messages of 1 ns
    spans = found(world).spans.query("kind == 'compute' and step > 0")
    length = (spans["end_ns"] - spans["start_ns"]).groupby([spans["address"], spans["step"]]).sum()
    passes = (8 + 4 - 1) * (20_000_000 + 40_000_000)
    np.testing.assert_allclose(length, passes + 3_000_000, atol=100)


def test_a_rank_without_dp_has_no_steps() -> None:
    diagnosis = found(make_world(dp=1, pp=4))
    assert set(diagnosis.pairs["kind"]) == {"pp"}
    assert diagnosis.steps.empty
    assert diagnosis.spans.empty
    assert diagnosis.findings.empty


def test_trap_5_a_job_that_looks_pp_throughout_has_no_steps() -> None:
    diagnosis = found(make_world(buckets=(100_000_000,) * 4))
    assert set(diagnosis.pairs["kind"]) == {"pp"}
    assert diagnosis.steps.empty


def test_a_silence_inside_a_collective_looks_like_a_step_gap() -> None:
    """Known weakness: records cut where ranks waited for a slow neighbour split the step."""
    world = make_world(pp=1, dp=4)
    flows = world.flows.copy()
    late = flows["start_ns"] > world.steps.query("step == 6")["start_ns"].iloc[0]
    first = flows[late & (flows["start_ns"] == flows["start_ns"][late].min())]
    flows.loc[late, ["start_ns", "end_ns"]] += 400_000_000
    early = [
        first.assign(start_ns=start, end_ns=start + 800_000, bytes=40_000_000)
        for start in (first["start_ns"], first["start_ns"] + 1_000_000)
    ]
    flows = pd.concat([flows, *early]).sort_values("start_ns").reset_index(drop=True)
    diagnosis = found(type(world)(flows, world.topology, world.ranks, world.steps, world.kinds))
    count = diagnosis.steps.groupby("address")["step"].nunique()
    assert (count == world.steps["step"].nunique() + 1).all()
