"""E1: drawn jobs keep to their ranges and fit the cluster, and the measured figures are right."""

from __future__ import annotations

import pytest

from prism_sim.loading import checks
from prism_sim.toolkit import OnServers, Scenario, stage_costs
from reproduction.base import Done
from reproduction.e1_jobs import measure, page
from reproduction.e1_jobs.drawing import draw_scenario, read_platform

pytestmark = pytest.mark.slow  # several worlds

SEEDS = range(1, 6)


def servers_of(scenario: Scenario) -> list[tuple[str, ...]]:
    placed = [job.placement for job in scenario.jobs]
    return [place.servers for place in placed if isinstance(place, OnServers)]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_jobs_are_disjoint_whole_servers_that_fit(seed: int, small: bool) -> None:
    platform = read_platform(small)
    scenario = draw_scenario(platform, seed)
    assert (scenario.cluster.gpus, len(scenario.jobs), scenario.duration_s) == (2880, 19, 60)
    assert list(checks.errors(scenario)) == []
    taken = [server for servers in servers_of(scenario) for server in servers]
    assert len(taken) == len(set(taken)) <= 360
    for job, servers in zip(scenario.jobs, servers_of(scenario), strict=True):
        assert job.ranks == 8 * len(servers)
        assert len(servers) in platform.draw.servers
        assert job.dp >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_step_times_are_in_their_range(seed: int) -> None:
    """A pipeline of p stages and m micro-batches takes (m + p - 1) times its slowest stage."""
    scenario = draw_scenario(read_platform(), seed)
    for job in scenario.jobs:
        costs = stage_costs(job, scenario.cluster)
        slot_s = max(cost.forward_ns + cost.backward_ns for cost in costs) / 1e9
        step_s = (job.micro_batches + job.pp - 1) * slot_s
        fewest = (2 * job.pp - 1) * slot_s  # as many micro-batches as stages
        assert step_s <= max(24 + slot_s / 2, fewest)
        assert job.start_s <= 24


def test_seeds_draw_different_platforms_and_the_same_seed_the_same() -> None:
    first, again, other = (draw_scenario(read_platform(), seed) for seed in (1, 1, 2))
    assert first == again
    assert [job.ranks for job in first.jobs] != [job.ranks for job in other.jobs]


def test_recognition_finds_jobs_with_traffic_between_servers() -> None:
    """A job on servers of its own is exact, unless its traffic stays inside one server."""
    done = [Done(trial, measure.measure(trial)) for trial in measure.trials([1], True)]
    for trial, result in done:
        assert result["true"] == 19
        for job, servers in zip(result["jobs"], servers_of(trial.scenario), strict=True):
            assert job["exact"] == (len(servers) > 1), job
        assert result["found"] == result["exact"] < result["clusters"]
        exact = sum(job["exact_other"] for job in result["jobs"])
        assert exact == result["prism"]["exact"]
        assert f"{exact} of 19" in page.section(done)
    large, small = (one.result for one in done)
    assert large["exact"] == 19
    assert small["exact"] < 19
    text = page.section(done)
    assert "| published | - | 19 | 19 of 19 |" in text
    assert "| ours, jobs of two servers or more | `paper` | 19 | 19 of 19 | 1 of 1 |" in text
    assert "1 of 1 give the published result" in page.gaps(done)[0]
