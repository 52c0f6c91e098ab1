"""In steps that are known to be slow, the rank that loses time in them is named."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

MODULE = import_module("llmprism.methods.prism.faults.causes.late_in_stretch")
UNEXPLAINED = import_module("llmprism.methods.prism.faults.causes.unexplained")
RANKS, STEPS, FIRST = 6, 28, 9
LONGER = 0.15
STRETCH = STEPS - FIRST


@pytest.fixture
def culprits(monkeypatch):
    """The culprits and causes where steps are longer to the end, and ranks lose such shares."""

    def found(lost, stages=1):
        duration = 1e8 * (1 + 0.01 * np.random.default_rng(0).standard_normal(STEPS))
        duration[FIRST:] += LONGER * 1e8
        phases = SimpleNamespace(
            endpoints=np.arange(RANKS), first_of_epoch=np.array([0]), classes=[]
        )
        job = SimpleNamespace(
            name="job-0",
            count=STEPS,
            duration_ns=duration,
            between_ends_ns=duration,
            tick_ns=0.0,
            period_ns=1e8,
            phases=phases,
            pipelines=SimpleNamespace(
                length=stages,
                stage=np.arange(RANKS) % stages if stages > 1 else np.full(RANKS, -1),
                number=np.full(RANKS, -1),
            ),
        )
        names = [f"10.0.{rank}.1" for rank in range(RANKS)]
        topology = SimpleNamespace(
            servers=np.arange(RANKS),
            addresses=names,
            endpoints=[SimpleNamespace(server=f"s{rank}") for rank in range(RANKS)],
            codes={name: rank for rank, name in enumerate(names)},
        )
        context = SimpleNamespace(jobs=[job], topology=topology, measured={})
        monkeypatch.setattr(MODULE, "lateness_ns", lambda *_, **__: lost * 1e8)
        monkeypatch.setattr(MODULE, "lost_share", lambda *_, **__: lost)
        imbalance = import_module("llmprism.methods.prism.faults.causes.imbalance")
        monkeypatch.setattr(imbalance, "lost_share", lambda *_, **__: lost)
        return [(one.culprit, one.cause) for one in UNEXPLAINED.unexplained(context, [])]

    return found


def noise(seed):
    return 0.02 * np.random.default_rng(seed).standard_normal((RANKS, STEPS))


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_whose_losses_vary_by_half_is_named(culprits, seed):
    """None of its steps is beyond what it varies, and most of the recording is slow."""
    lost = noise(seed)
    lost[4, FIRST:] += LONGER * (1 + 0.4 * np.random.default_rng(seed).standard_normal(STRETCH))
    assert culprits(lost) == [("10.0.4.1", "slow_gpu")]


@pytest.mark.parametrize("seed", range(5))
def test_two_ranks_at_one_hop_are_one_finding(culprits, seed):
    lost = noise(seed)
    lost[4, FIRST:] += LONGER
    lost[3] = lost[4]
    ((culprit, _),) = culprits(lost)
    assert culprit in ("10.0.3.1", "10.0.4.1")


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_named_whose_losses_explain_little(culprits, seed):
    lost = noise(seed) / 10
    lost[4, FIRST:] += LONGER / 4
    assert culprits(lost) == [("job-0", "unknown")]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_lose_time_in_turns_have_uneven_work(culprits, seed):
    lost = noise(seed) / 10
    turns = np.random.default_rng(seed).permutation(np.arange(STRETCH) % RANKS)
    lost[turns, np.arange(FIRST, STEPS)] += LONGER
    assert culprits(lost) == [("job-0", "length_imbalance")]


@pytest.mark.parametrize("seed", range(5))
def test_ranks_of_one_stage_that_lose_most_in_turns_are_a_slow_stage(culprits, seed):
    lost = noise(seed)
    lost[1::2, FIRST:] += LONGER
    assert culprits(lost, stages=2) == [("job-0 stage 1", "uneven_stage")]
