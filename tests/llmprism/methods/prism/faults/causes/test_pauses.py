"""Servers whose ranks pause: how many pauses of which length are no chance."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.pauses import _longer, _of_job, _pausing

STEPS, SERVERS, STEP_NS = 28, 8, 1e8


@pytest.fixture
def culprits_of(monkeypatch):
    """Servers named for the time that each of them, with one rank, loses in some steps."""
    of_job = _of_job.__globals__

    def found(
        pauses: dict[tuple[int, int], float],
        longer: float = 1.0,
        saved: Sequence[tuple[int, int]] = (),
        slow: Sequence[tuple[int, int]] = (),
    ) -> list[str]:
        waits = np.zeros((SERVERS, STEPS), np.bool_)
        waits[tuple(np.array([*slow], int).reshape(-1, 2).T)] = True
        monkeypatch.setitem(of_job, "slow_messages_at", lambda *_: waits)
        saves = np.zeros((SERVERS, STEPS), np.bool_)
        saves[tuple(np.array([*saved], int).reshape(-1, 2).T)] = True
        monkeypatch.setitem(of_job, "saving", lambda *_: saves)
        lost = 0.001 * np.random.default_rng(1).random((SERVERS, STEPS))
        for (server, step), share in pauses.items():
            lost[server, step] += share
        length_ns = STEP_NS * (1 + longer * lost.max(axis=0))
        job: Any = SimpleNamespace(
            name="job-0", count=STEPS, period_ns=STEP_NS, tick_ns=0.0, duration_ns=length_ns,
            between_ends_ns=length_ns, phases=SimpleNamespace(endpoints=np.arange(SERVERS)),
        )  # fmt: skip
        monkeypatch.setitem(of_job, "usual_delay_ns", lambda *_: np.zeros(SERVERS))
        names = [f"a{one}" for one in range(SERVERS)]
        topology: Any = SimpleNamespace(
            servers=np.arange(SERVERS), addresses=names,
            endpoints=[SimpleNamespace(server=name) for name in names],
        )  # fmt: skip
        context: Any = SimpleNamespace(topology=topology)
        return [one.culprit for one in _of_job(context, job, lost, longer * lost.max(axis=0))]

    return found


SHORT = {(4, 3): 0.07, (5, 17): 0.07}  # one in each of two other servers


def test_longer_pauses_of_one_server_are_no_chance_though_others_pause_briefly(culprits_of):
    assert culprits_of({(2, 8): 0.18, (2, 11): 0.18, (2, 14): 0.18} | SHORT) == ["a2"]


def test_a_rank_that_waits_for_slow_messages_does_not_pause(culprits_of):
    pauses = {(2, 8): 0.18, (2, 11): 0.18, (2, 14): 0.18}
    assert culprits_of(pauses | SHORT, slow=[*pauses]) == []


def test_pauses_as_brief_as_those_of_others_may_be_chance(culprits_of):
    assert culprits_of({(2, 8): 0.07, (2, 11): 0.07, (2, 14): 0.07} | SHORT) == []


@pytest.mark.parametrize(("long", "expected"), [(0.07, []), (0.18, ["a2"])])
def test_two_brief_pauses_may_be_chance_and_two_long_ones_are_none(culprits_of, long, expected):
    """Half a brief pause is assumed in seven servers: by five bars, two are in one of ten worlds.

    Those of 0.18 of a step are seven times as rare.
    """
    assert culprits_of({(2, 8): long, (2, 14): long}) == expected


@pytest.mark.parametrize(("longer", "expected"), [(1.5, ["a2"]), (2.5, [])])
def test_steps_that_are_longer_by_more_than_twice_the_pauses_are_so_for_another_reason(
    culprits_of, longer, expected
):
    assert culprits_of({(2, 8): 0.18, (2, 11): 0.18, (2, 14): 0.18}, longer) == expected


@pytest.mark.parametrize(("saver", "expected"), [(2, []), (3, ["a2"])])
def test_a_rank_that_saves_while_it_loses_time_does_not_pause(culprits_of, saver, expected):
    at = (8, 11, 14)
    pauses = {(2, step): 0.18 for step in at}
    assert culprits_of(pauses, saved=[(saver, step) for step in at]) == expected


def test_a_rank_that_saves_all_the_time_may_pause(culprits_of):
    saved = [(2, step) for step in range(STEPS)]
    assert culprits_of({(2, 8): 0.18, (2, 11): 0.18, (2, 14): 0.18}, saved=saved) == ["a2"]


def test_steps_without_a_pause_show_what_a_step_takes_though_most_have_one():
    rng = np.random.default_rng(2)
    lost = 0.001 * rng.random((SERVERS, STEPS))
    lost[3, 6:] += 0.2
    length_ns = STEP_NS * (1 + lost.max(axis=0) + 0.1 * rng.random(STEPS))
    job: Any = SimpleNamespace(duration_ns=length_ns, between_ends_ns=length_ns, period_ns=STEP_NS)
    longer = _longer(job, lost)
    assert (longer[6:] > 0.1).all()
    assert (longer[:6] < 0.08).all()


def test_a_rank_that_is_early_in_all_steps_but_one_does_not_pause_in_that_one(culprits_of):
    """Its records count to the step before; in no step does anybody lose time."""
    early = {(2, step): -0.9 for step in range(STEPS) if step != 9}
    assert culprits_of(early, longer=0.0) == []


def test_one_chance_pause_of_a_neighbour_does_not_make_the_whole_server_pause():
    """A rank that loses 88 % of the time pauses alone; ranks that pause in turns do so together."""
    lost = np.zeros((3, 8))
    lost[1, [2, 3, 5, 6]], lost[0, 1] = [0.35, 0.25, 0.18, 0.15], 0.13
    assert _pausing(lost).tolist() == [1]
    lost[0, 1] = 0.3
    assert _pausing(lost).tolist() == [0, 1]
