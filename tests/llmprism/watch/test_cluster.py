"""A monitor whose windows are diagnosed on a cluster finds what it finds alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dask_clusters import dask_cluster
from llmprism.watch.state import State
from small_jobs import join_worlds, make_world
from watching import SETTINGS, Watched, pieces, put

SLOW = {(1, step): 1.5 for step in range(14, 18)}


@pytest.fixture
def tenants() -> Any:
    """Two jobs, of which one has a slow replica."""
    slow = make_world(name="a", steps=34, slow=SLOW, jitter=0.01)
    return join_worlds(slow, make_world(name="b", dp=5, steps=30, seed=4, jitter=0.01))


def watch(world: Any, folder: Path, cluster: str | None, count: int = 3) -> tuple[Watched, State]:
    one = Watched(folder, replace(SETTINGS, records_at_once=1, cluster=cluster))
    one.begin(world.topology)
    for number, records in enumerate(pieces(world.flows, count)):
        put(records, one.incoming, f"{number}.parquet")
        state = one.round()
    return one, state


@pytest.mark.slow
def test_events_and_steps_are_those_of_one_machine_though_a_worker_is_killed(
    tenants: Any, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path) as cluster:
        killing = Thread(target=cluster.kill_a_busy_worker)
        killing.start()
        found, state = watch(tenants, tmp_path / "on-cluster", cluster.address)
        killing.join()
        assert sorted(worker.poll() is None for worker in cluster.workers) == [False, True]
    alone, expected = watch(tenants, tmp_path / "alone", None)
    assert ("opened", "SlowGpu") in found.happened()
    assert found.events == alone.events
    assert state.jobs == expected.jobs
    assert len(state.jobs) == 2


def test_a_scheduler_that_is_away_is_an_alert(tenants: Any, tmp_path: Path) -> None:
    flows = tenants.flows.nsmallest(2_000, "end_ns")  # of one window
    begun = type(tenants)(flows, tenants.topology, tenants.ranks, tenants.steps, tenants.kinds)
    one, _ = watch(begun, tmp_path, "tcp://127.0.0.1:9", 1)
    assert ("opened", "NoDiagnosis") in one.happened()
    assert one.exits[-1] == 4
