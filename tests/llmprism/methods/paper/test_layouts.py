"""The layout of a job, as far as the published method shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from llmprism.pipeline import diagnose


@pytest.fixture
def layout(read_world: Callable[..., Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda world: diagnose(*read_world(world), method="paper").layouts.iloc[0].to_dict()


def test_sizes_and_period_of_a_job(
    make_world: Callable[..., Any], layout: Callable[[Any], dict[str, Any]]
) -> None:
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


def test_layouts_of_the_published_method_are_unknown_beyond_its_output(
    make_world: Callable[..., Any], layout: Callable[[Any], dict[str, Any]]
) -> None:
    found = layout(make_world(tp=2))
    assert [found[name] for name in ("tp", "ep", "cp", "micro_batches")] == [-1] * 4
    assert (found["schedule"], found["sharding"]) == ("unknown", "unknown")


def test_an_axis_without_traffic_has_size_one(
    make_world: Callable[..., Any], layout: Callable[[Any], dict[str, Any]]
) -> None:
    assert layout(make_world(dp=5, pp=1))["pp"] == 1
    alone = layout(make_world(dp=1, pp=4))
    assert (alone["dp"], alone["pp"], alone["period_ns"]) == (1, 4, -1)
