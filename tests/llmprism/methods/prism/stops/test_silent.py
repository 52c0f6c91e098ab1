"""A NIC that stopped between two transfers, where other traffic goes on at all others."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.stops.silent import stuck_in_silence

MODULE = importlib.import_module("llmprism.methods.prism.stops.silent")
NICS, ENDED_NS = 4, 1_000


def named(monkeypatch, others, unfinished=(0, 1, 2, 3), next_ns=None):
    """The NIC that is named if these records of two NICs follow the unfinished exchange."""
    src, dst = np.array(others, np.int64).reshape(-1, 2).T
    start_ns = ENDED_NS + 100 * np.arange(1, src.size + 1)
    flows = SimpleNamespace(
        src=src, dst=dst, start_ns=start_ns, end_ns=start_ns + 10, addresses=["a"] * NICS
    )
    context: Any = SimpleNamespace(flows=flows)
    monkeypatch.setattr(MODULE, "unfinished_groups", lambda *_: {*unfinished})
    tail: Any = SimpleNamespace(end_ns=ENDED_NS, next_ns=next_ns)
    job: Any = SimpleNamespace(phases=SimpleNamespace(endpoints=np.arange(NICS)))
    found = stuck_in_silence(context, job, tail)
    return None if found is None else (found.endpoint, found.cause, found.since_ns)


BUSY = [(0, 1), (1, 3), (3, 0)] * 6  # twelve records of each NIC but the third one


def test_the_only_nic_that_carries_nothing_more_stopped(monkeypatch):
    assert named(monkeypatch, BUSY) == (2, "stopped_nic", ENDED_NS)


@pytest.mark.parametrize(
    "others",
    [[*BUSY, (2, 0)], [(0, 1), (0, 1)] * 6, [(0, 1), (1, 3), (3, 0)] * 2, []],
    ids=["it carries something", "two are silent", "others carry little", "all are silent"],
)
def test_silence_that_others_share_or_chance_explains_shows_nothing(monkeypatch, others):
    assert named(monkeypatch, others) is None


def test_a_job_that_finished_its_last_exchange_has_ended(monkeypatch):
    assert named(monkeypatch, BUSY, unfinished=()) is None


def test_what_ends_as_the_job_goes_on_does_not_show_that_the_nic_carries_anything(monkeypatch):
    """It is back shortly before: its first record ends in the last tenth of the silence."""
    until_ns = ENDED_NS + 100 * 19
    assert named(monkeypatch, [*BUSY, (2, 0)], next_ns=until_ns) == (2, "stopped_nic", ENDED_NS)
