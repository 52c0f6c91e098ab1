"""DP groups and pipelines, the order of stages, and layouts as far as they show them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from small_jobs import World, found, join_worlds, make_world, rows_world, simple_topology


def members(groups: pd.DataFrame, kind: str) -> set[frozenset[str]]:
    own = groups[groups["kind"] == kind]
    return {frozenset(group["address"]) for _, group in own.groupby(["job", "group"])}


@pytest.mark.parametrize("jitter", [0.0, 0.03])
def test_groups_and_pipelines_are_those_of_the_plan(jitter: float) -> None:
    world = make_world(dp=3, pp=4, tp=2, jitter=jitter)
    groups = found(world).groups
    ranks = world.ranks
    by_stage = ranks.groupby(["stage", "slice"])["address"].agg(frozenset)
    by_replica = ranks.groupby(["replica", "slice"])["address"].agg(frozenset)
    assert members(groups, "dp") == set(by_stage)
    assert members(groups, "pp") == set(by_replica)


@pytest.mark.parametrize("plan", [{"pp": 2}, {"pp": 4, "jitter": 0.03}, {"pp": 8, "dp": 2}])
def test_stages_are_put_in_order(plan: dict[str, Any]) -> None:
    world = make_world(**plan)
    stages = world.ranks.set_index("address")["stage"]
    pipelines = found(world).groups.query("kind == 'pp'")
    assert pipelines["position"].tolist() == stages[pipelines["address"]].tolist()


def test_the_order_around_a_ring_is_not_guessed() -> None:
    groups = found(make_world(pp=1, dp=4)).groups
    assert groups["position"].isna().all()


def test_a_window_that_opens_in_mid_step_does_not_turn_a_pipeline_round() -> None:
    """The first flow of the record is a gradient: it alone would name the wrong first stage."""
    world = make_world(pp=2, dp=2)
    stage = world.ranks.set_index("address")["stage"]
    pp = world.flows["src"].map(stage) != world.flows["dst"].map(stage)
    backward = world.flows["src"].map(stage) == 1
    opens = world.flows[pp & backward]["start_ns"].iloc[3]
    kept = world.flows[world.flows["start_ns"] >= opens].reset_index(drop=True)
    assert stage[kept["src"].iloc[0]] == 1
    late = type(world)(kept, world.topology, world.ranks, world.steps, world.kinds)
    pipelines = found(late).groups.query("kind == 'pp'")
    assert pipelines["position"].tolist() == stage[pipelines["address"]].tolist()


def test_without_steps_the_record_as_a_whole_is_one_vote() -> None:
    world = make_world(dp=1, pp=3)
    pipelines = found(world).groups.query("kind == 'pp'")
    assert pipelines["position"].tolist() == [0, 1, 2]
    assert pipelines["address"].tolist() == ["a.0.0.0", "a.1.0.0", "a.2.0.0"]


def test_pairs_that_form_no_chain_have_no_order() -> None:
    """Four addresses that pass one size around in a circle."""
    rows = [
        (k * 100 + i, k * 100 + i + 5, src, dst, 5)
        for k in range(12)
        for i, (src, dst) in enumerate(["ab", "bc", "cd", "da"])
    ]
    groups = found(rows_world(rows, simple_topology(list("abcd"), list("1234")))).groups
    assert set(groups["kind"]) == {"pp"}
    assert groups["position"].isna().all()


def test_groups_are_numbered_within_job_and_kind() -> None:
    first = make_world(name="z")
    second = make_world(name="a", start_ns=1_700_000_000_700_000_000)
    groups = found(join_worlds(first, second)).groups
    numbers = groups.groupby(["job", "kind"])["group"].agg(lambda g: sorted(set(g)))
    assert numbers.to_dict() == {
        ("job-0", "dp"): [0, 1],
        ("job-0", "pp"): [0, 1, 2, 3],
        ("job-1", "dp"): [0, 1],
        ("job-1", "pp"): [0, 1, 2, 3],
    }
    assert groups.query("job == 'job-0'")["address"].str.startswith("z").all()


def layout(world: World) -> dict[str, Any]:
    return dict(found(world).layouts.iloc[0])


def test_sizes_and_period_of_a_job() -> None:
    world = make_world(dp=4, pp=3)
    found = layout(world)
    assert (found["job"], found["dp"], found["pp"]) == ("job-0", 4, 3)
    own = world.steps[world.steps["address"] == world.steps["address"].iloc[0]]
    assert found["period_ns"] == pytest.approx(own["end_ns"].diff().median(), abs=1)
    assert found["confidence"] == 1.0
    assert json.loads(found["evidence"]) == {
        "dp_group_sizes": [4, 4, 4],
        "pipeline_sizes": [3, 3, 3, 3],
    }


def test_layouts_of_the_published_method_are_unknown_beyond_its_output() -> None:
    found = layout(make_world(tp=2))
    assert [found[name] for name in ("tp", "ep", "cp", "micro_batches")] == [-1] * 4
    assert (found["schedule"], found["sharding"]) == ("unknown", "unknown")


def test_an_axis_without_traffic_has_size_one() -> None:
    assert layout(make_world(dp=5, pp=1))["pp"] == 1
    alone = layout(make_world(dp=1, pp=4))
    assert (alone["dp"], alone["pp"], alone["period_ns"]) == (1, 4, -1)
