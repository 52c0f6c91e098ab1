"""Passes of which the order is learned: a rank that works longer, and one that only waits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.passes import learned_passes as module
from llmprism.methods.prism.faults.passes.learned_passes import Lane, learned_passes

STEPS, TICK_NS = 10, 1e6
WORK = {0: 3.0, 1: 5.0}  # how long both ranks work on a message, in ticks


def job_of_two():
    """A job of two ranks whose steps end at moments that are not known."""
    phases = SimpleNamespace(endpoints=np.arange(2), first_of_epoch=np.array([0]))
    ranks = SimpleNamespace(end=np.full((2, STEPS), np.nan))
    return SimpleNamespace(name="job-0", count=STEPS, phases=phases, ranks=ranks)


def messages_of_two():
    """Two ranks in turn: three messages each way, and the first one is slow from step 6 on."""
    sent = np.zeros((2, STEPS, 3))
    for step in range(STEPS):
        now = 100.0 * step
        for number in range(3):
            for rank in (0, 1):
                now += WORK[rank] * (2.0 if (rank, step >= 6) == (0, True) else 1.0)
                sent[rank, step, number] = now
    return [
        Lane(rank, 1 - rank, times * TICK_NS, times * TICK_NS) for rank, times in enumerate(sent)
    ]


@pytest.fixture
def passes(monkeypatch):
    """What is learned from the messages of both ranks."""
    lanes = messages_of_two()
    monkeypatch.setattr(module, "_lanes", lambda *_: lanes)
    job = job_of_two()
    return learned_passes(SimpleNamespace(measured={}), job)


def test_only_the_slow_rank_works_longer(passes):
    assert passes.work_ns[0, :6, 1:] == pytest.approx(3 * TICK_NS)
    assert passes.work_ns[0, 6:, 1:] == pytest.approx(6 * TICK_NS)
    assert passes.work_ns[1] == pytest.approx(5 * TICK_NS)


def test_nothing_is_known_of_passes_whose_input_is_lost(monkeypatch):
    """Since the last message that the rank sent itself, it waited as well."""
    lanes = messages_of_two()
    lanes[1].sent[3], lanes[1].got[3] = np.nan, np.nan
    monkeypatch.setattr(module, "_lanes", lambda *_: lanes)
    work_ns = learned_passes(SimpleNamespace(measured={}), job_of_two()).work_ns[0, :, 1:]
    assert np.isnan(work_ns[3]).all()
    assert work_ns[[0, 1, 2, 4, 5]] == pytest.approx(3 * TICK_NS)


def test_a_message_that_waits_for_none_shows_no_pass(passes):
    assert np.isnan(passes.work_ns[0, :, 0]).all()


def test_who_receives_is_known(passes):
    assert passes.to.tolist() == [[1, 0], [-1, -1]]
    assert not passes.single
    assert passes.since_receiver_ns(np.array([0]))[0, :6, 1:] == pytest.approx(3 * TICK_NS)


def test_records_that_hold_all_messages_of_a_step_show_no_passes(monkeypatch):
    times_ns = np.arange(STEPS, dtype=np.float64)[:, None] * 1e8
    lanes = [Lane(rank, 1 - rank, times_ns, times_ns + TICK_NS) for rank in (0, 1)]
    monkeypatch.setattr(module, "_lanes", lambda *_: lanes)
    job = job_of_two()
    job.pipelines = SimpleNamespace(length=2, chunks=2)
    flows = SimpleNamespace(start_ns=np.arange(9), end_ns=np.arange(9))
    assert module.shown_passes(SimpleNamespace(measured={}, flows=flows), job) is None


def test_a_clock_that_is_coarse_for_a_pass_shows_none(passes):
    assert passes.shows_passes(TICK_NS / 10)
    assert not passes.shows_passes(TICK_NS)
