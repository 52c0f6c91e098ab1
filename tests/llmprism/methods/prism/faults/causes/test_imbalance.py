"""Work that is unevenly divided: ranks are late in turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes import imbalance
from llmprism.methods.prism.faults.causes.imbalance import (
    _by_lateness,
    _wider,
    by_chance,
    by_experts,
    size_spread,
)
from llmprism.methods.prism.faults.suspects.suspects import Suspect

RANKS, STEPS = 6, 28


def extents(lost: Any, servers: Any = range(RANKS), stages: Any = (-1,) * RANKS) -> Any:
    """First and last step of each stretch."""
    job: Any = SimpleNamespace(name="job-0")
    found = _by_lateness(job, lost, "length_imbalance", [np.array(servers), np.array(stages)])
    return [(one.first, one.last) for one in found]


@pytest.mark.parametrize("seed", range(5))
def test_two_long_steps_are_no_imbalance_though_one_is_between_them(seed):
    lost = 0.005 * np.abs(np.random.default_rng(seed).standard_normal((RANKS, STEPS)))
    lost[1, 6] = lost[4, 8] = 0.2
    assert extents(lost) == []


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_are_late_in_turns_are(seed):
    lost = 0.005 * np.abs(np.random.default_rng(seed).standard_normal((RANKS, STEPS)))
    for number, step in enumerate(range(8, 16)):
        lost[(2 * number) % 5, step] = 0.2
    assert extents(lost) == [(8, 15)]


def test_ranks_that_are_late_in_turns_cost_what_the_last_one_is_late():
    lost = np.zeros((RANKS, STEPS))
    for number, step in enumerate(range(8, 16)):
        lost[(2 * number) % 5, step] = 0.2
    job: Any = SimpleNamespace(name="job-0")
    (found,) = _by_lateness(job, lost, "length_imbalance", np.arange(RANKS))
    assert found.lost_share == pytest.approx(0.2)
    assert found.evidence["or_causes"] == ["expert_imbalance"]  # bytes show neither


def test_what_the_middle_rank_loses_as_well_is_a_part_of_the_cost():
    """Groups of experts lose about as much, each in another layer."""
    lost = np.zeros((RANKS, STEPS))
    lost[:, 8:16] = 0.1
    for number, step in enumerate(range(8, 16)):
        lost[(2 * number) % 5, step] = 0.2
    job: Any = SimpleNamespace(name="job-0")
    (found,) = _by_lateness(job, lost, "expert_imbalance", np.arange(RANKS))
    assert (found.first, found.last) == (8, 15)
    assert found.lost_share == pytest.approx(0.2)


@pytest.mark.parametrize("again", [True, False])
def test_a_stage_whose_experts_divide_their_work_again_has_no_more_layers(again, monkeypatch):
    monkeypatch.setattr(imbalance, "divided_again", lambda *_: again)
    job: Any = SimpleNamespace(name="job-0")
    stage = Suspect(
        job, "group", "slow_passes", "uneven_stage", "stage", "job-0 stage 1", 8, 15, 0.2, 0.9
    )
    context: Any = None
    found = by_experts(context, stage)
    if not again:
        assert found is stage
        return
    assert (found.cause, found.culprit_kind, found.culprit) == ("expert_imbalance", "job", "job-0")
    assert found.evidence["or_causes"] == ["uneven_stage"]
    assert found.evidence["one_of"] == ["job-0", "job-0 stage 1"]
    assert found.confidence <= 0.5


def test_ranks_of_one_server_or_stage_that_are_late_in_turns_are_slow():
    lost = 0.005 * np.abs(np.random.default_rng(1).standard_normal((RANKS, STEPS)))
    for number, step in enumerate(range(8, 17)):
        lost[number % 3, step] = 0.2
    assert extents(lost) == [(8, 16)]
    assert extents(lost, [0, 0, 0, 1, 1, 1]) == []
    assert extents(lost, stages=[0, 0, 0, 1, 1, 1]) == []


@pytest.mark.parametrize("seed", range(5))
def test_work_that_is_uneven_for_three_quarters_of_the_steps_is_found(seed):
    spread = np.zeros(STEPS)
    spread[7:] = np.random.default_rng(seed).uniform(0.03, 0.14, STEPS - 7)
    (steps,) = _wider(spread, 0.02)
    assert (steps[0], steps[-1]) == (7, STEPS - 1)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_that_are_spread_a_little_more_show_it_in_several_steps(seed):
    """Sampled bytes: no step alone is beyond what single spreads may differ by chance."""
    spread = 0.06 + 0.01 * np.random.default_rng(seed).uniform(-1, 1, STEPS)
    assert _wider(spread, 0.02, 0.1) == []
    spread[10:22] += 0.08
    (steps,) = _wider(spread, 0.02, 0.1)
    assert (steps[0], steps[-1]) == (10, 21)


MESSAGE = 8_000_000


def sent(volumes: Any) -> Any:
    """A job whose connections send messages of one size, so many bytes in each step."""
    part: Any = SimpleNamespace(kind="pp", volumes=lambda *_: volumes)
    part.one = SimpleNamespace(traffic=SimpleNamespace(size=np.full(100, MESSAGE)))
    return SimpleNamespace(count=STEPS, phases=SimpleNamespace(classes=[part]))


def spread_of(volumes: Any) -> Any:
    """How much bytes differ in each step."""
    context: Any = SimpleNamespace(connections=None)
    return size_spread(context, sent(volumes), "pp")


@pytest.mark.parametrize("connections", [2, 4])
def test_sampled_bytes_that_differ_by_chance_are_no_imbalance(connections):
    """Each estimate is a Poisson number of samples: 32 of them in a step."""
    stream = np.random.default_rng(connections)
    found = 0
    for _ in range(200):
        volumes = stream.poisson(32.0, (connections, STEPS)) * 1e6
        context: Any = SimpleNamespace(connections=SimpleNamespace(sample_bytes=1e6))
        least = by_chance(context, sent(volumes), "pp")
        found += len(_wider(spread_of(volumes), max(0.02, least)))
    assert found == 0


def test_observed_bytes_differ_by_nothing_but_sequences():
    context: Any = SimpleNamespace(connections=SimpleNamespace(sample_bytes=0.0))
    assert by_chance(context, sent(np.full((RANKS, STEPS), 12.0 * MESSAGE)), "pp") == 0


def test_a_message_that_was_counted_to_another_step_is_no_longer_sequence():
    volumes = np.full((RANKS, STEPS), 12.0 * MESSAGE)
    volumes[:3, 10], volumes[:3, 11] = 11.0 * MESSAGE, 13.0 * MESSAGE
    assert spread_of(volumes).max() == 0
    volumes[:3, 20] *= 1.04  # sequences that are longer by half a message
    assert np.flatnonzero(spread_of(volumes) > 0.01).tolist() == [20]


def test_a_lost_message_of_some_connections_is_no_longer_sequence():
    """A record holds a header as well, so that what lacks is not a whole message."""
    volumes = np.full((RANKS, STEPS), 12.03 * MESSAGE)
    volumes[0, 5:15] -= 1.01 * MESSAGE
    volumes[4, 9:20] -= 1.01 * MESSAGE
    assert spread_of(volumes).max() == 0
