"""The layout of a job, as far as the published method shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from small_jobs import World, found, make_world


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
