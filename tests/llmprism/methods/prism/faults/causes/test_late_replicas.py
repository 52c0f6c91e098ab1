"""Replicas of a pipeline that are late to their collectives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.late_replicas import late_replicas

STEPS, STEP_NS, REPLICAS, STAGES = 28, 1e8, 4, 2
LATE = 2


@pytest.fixture
def brought(monkeypatch):
    """Suspects of a job one of whose replicas is late by a share of a step in some steps."""
    of_cause = late_replicas.__globals__

    def found(
        steps: range,
        *,
        by_gradients: bool = False,
        slow_stage: int = -1,
        unseen_stage: int = -1,
        slower: float = 1.0,
        messages: int = 8,
    ) -> list[Any]:
        number = np.tile(np.arange(REPLICAS), STAGES)
        late = 0.003 * np.random.default_rng(5).standard_normal((number.size, STEPS))
        late[np.ix_(number == LATE, steps)] += 0.2
        stage = np.repeat(np.arange(STAGES), REPLICAS)
        pipelines = SimpleNamespace(length=STAGES, number=number, stage=stage, messages=messages)
        unknown = np.full(late.shape, np.nan)
        passes = np.full((*late.shape, 2), np.nan if slow_stage < 0 else 0.05 * STEP_NS)
        slow = (number == LATE) & (stage == slow_stage)
        passes[np.ix_(slow, steps)] += slower * 0.2 * STEP_NS / 8
        passes[stage == unseen_stage] = np.nan
        gathered, ended = (unknown, late) if by_gradients else (late, unknown)
        phases = SimpleNamespace(endpoints=np.arange(number.size))
        job = SimpleNamespace(
            name="job-0", count=STEPS, period_ns=STEP_NS, pipelines=pipelines, phases=phases
        )
        names = [f"a{one}" for one in range(number.size)]
        topology = SimpleNamespace(
            servers=np.arange(number.size), addresses=names,
            endpoints=[SimpleNamespace(server=name) for name in names],
        )  # fmt: skip
        monkeypatch.setitem(of_cause, "lateness_ns", lambda *_: gathered * STEP_NS)
        monkeypatch.setitem(of_cause, "last_gradients_ns", lambda *_: (1 + ended) * STEP_NS)
        monkeypatch.setitem(of_cause, "edge_passes_ns", lambda *_: passes)
        monkeypatch.setitem(of_cause, "clock_tick_ns", lambda *_: 1)
        monkeypatch.setitem(of_cause, "first_activations_ns", lambda *_: unknown)
        context: Any = SimpleNamespace(
            jobs=[job], topology=topology, flows=SimpleNamespace(start_ns=0, end_ns=0)
        )
        return list(late_replicas(context))

    return found


@pytest.mark.parametrize("every", [1, 2])
def test_a_replica_is_named_that_is_late_in_every_or_every_second_step(brought, every):
    [one] = brought(range(7, STEPS, every))
    assert one.culprit in {f"a{LATE}", f"a{LATE + REPLICAS}"}
    assert one.first == 7


def test_the_last_gradients_show_a_late_replica_where_collectives_do_not(brought):
    [one] = brought(range(7, 15), by_gradients=True)
    assert {f"a{LATE}", f"a{LATE + REPLICAS}"} <= {*one.names}
    assert (one.first, one.last) == (7, 14)
    assert one.lost_share == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("stage", range(STAGES))
def test_a_rank_whose_passes_are_as_fast_as_ever_is_not_named_first(brought, stage):
    [one] = brought(range(7, 15), slow_stage=stage)
    assert one.names[0] == f"a{LATE + stage * REPLICAS}"
    assert f"a{LATE + (1 - stage) * REPLICAS}" in one.names


@pytest.mark.parametrize("stage", range(STAGES))
def test_passes_that_nobody_can_count_clear_a_rank_if_none_is_longer(brought, stage):
    [one] = brought(range(7, 15), slow_stage=stage, messages=-1)
    assert one.names[0] == f"a{LATE + stage * REPLICAS}"


def test_a_pass_that_is_a_part_of_the_delay_clears_nobody_if_there_may_be_many(brought):
    """A small part of each of many passes makes the replica late; the other rank is not seen."""
    [counted], [one] = (
        brought(range(7, 15), slow_stage=1, slower=0.3, unseen_stage=0, messages=messages)
        for messages in (2, -1)
    )
    assert counted.names[0] == f"a{LATE}"
    assert one.names[0] == f"a{LATE + REPLICAS}"


@pytest.mark.parametrize(("replicas", "shown"), [(2, False), (3, True)])
def test_of_two_replicas_the_last_gradients_show_none_that_is_late(monkeypatch, replicas, shown):
    of_cause = late_replicas.__globals__
    ends = np.full((replicas, STEPS), 1e9)
    ends[0, 7:15] += 2e7
    job: Any = SimpleNamespace(
        pipelines=SimpleNamespace(length=1, stage=np.zeros(replicas, np.int64))
    )
    monkeypatch.setitem(of_cause, "lateness_ns", lambda *_: np.full(ends.shape, np.nan))
    monkeypatch.setitem(of_cause, "last_gradients_ns", lambda *_: ends.copy())
    late = of_cause["_late_ns"](SimpleNamespace(), job)
    assert bool(np.nanmax(np.nan_to_num(late)) == 2e7) == shown
