"""Every failure kind, in jobs of several seeds: what it lets programs print is consistent."""

from __future__ import annotations

import pytest

from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.drawn import drawn_job
from prism_sim.logs.failures import FAILURES
from prism_sim.logs.population import Fate
from prism_sim.scenario.cluster import Cluster

SEEDS = range(4)
CLUSTER = Cluster(servers=6, gpus_per_server=4, nics_per_server=4)
WITHOUT_LINES = {"slow_gpu", "process_stopped"}
"""Kinds that nothing states: iterations are slow, or one rank is silent."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_kind_ends_its_job_and_states_its_cause(name: str) -> None:
    stated = 0
    for seed in SEEDS:
        fate = Fate(0, 0, "any", FAILURES[name], 0)
        made = drawn_job(fate, Logs(max_nodes=4), CLUSTER, Draws(seed), 10**18, None)
        scene = made.scene
        assert scene is not None
        assert {*scene.ended_ns} == {*range(len(made.job.nodes))}, "a node still runs"
        assert {*scene.gone_ns} == {*range(made.job.ranks)} or scene.iteration is None
        assert scene.ending.state != "COMPLETED"
        lines = scene.printed
        assert min(line.time_ns for line in lines) >= scene.when_ns - 10**7
        assert max(line.time_ns for line in lines) <= scene.end_ns + 5 * 10**9
        stated += any(line.role == "indicator" for line in lines)
    assert (stated == 0) == (name in WITHOUT_LINES)
