"""Saves that take longer for as many bytes than the first few did."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.causes.slow_storage import Saves, slow_storage


def test_storage_is_slow_where_only_the_first_two_saves_are_healthy(monkeypatch):
    step = np.arange(3, 27, 3)
    pace = np.where(step < 9, 1.0, 6.0)
    duration_ns = np.full(27, 1e8)
    duration_ns[step] += 1e8 * pace
    job = SimpleNamespace(between_ends_ns=duration_ns, period_ns=1e8, tick_ns=0.0)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    monkeypatch.setattr(module, "saves_of", lambda *_: [Saves("s0009", step, pace, pace)])
    (found,) = slow_storage(SimpleNamespace(jobs=[job]))
    assert (found.culprit, found.first, found.last) == ("s0009", 9, 24)
    assert found.is_believed
    assert found.cost.lost_ns == pytest.approx(6 * 5e8)  # a healthy save takes a step as well


def test_a_save_that_lacks_a_record_is_not_slow():
    size = np.full(8, 4_000_000)
    size[3] = 3_000_000
    _, pace, _ = saves_of_records(size, np.full(8, 10**8))
    assert np.ptp(pace) == 0


def test_saves_are_not_slow_while_those_of_another_job_share_the_storage():
    """Two jobs save at once four times; then the other one is done, and a save takes half."""
    size, lasts_ns = np.full(8, 4_000_000), np.repeat([2 * 10**8, 10**8], 4)
    _, pace, shared_pace = saves_of_records(size, lasts_ns, others=4)
    assert pace[0] == pytest.approx(2 * pace[-1])
    assert np.ptp(shared_pace) == pytest.approx(0)


def saves_of_records(size, lasts_ns, others=0):
    """Step and paces of saves of one record each; the first ones are shared with ``others``."""
    begin_ns = (np.arange(8) * 10e8).astype(np.int64)
    flows = SimpleNamespace(
        start_ns=np.concatenate([begin_ns, begin_ns[:others]]),
        end_ns=np.concatenate([begin_ns + lasts_ns, (begin_ns + lasts_ns)[:others]]),
        bytes=np.concatenate([size, size[:others]]),
    )
    flows.lengths_ns = lambda rows: flows.end_ns[rows] - flows.start_ns[rows]
    job = SimpleNamespace(period_ns=1e8, count=8, end_ns=begin_ns + lasts_ns)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    rows = np.arange(8), np.arange(8, 8 + others)
    return module._saves(SimpleNamespace(flows=flows), job, *rows)


def test_storage_that_others_use_as_well_is_slow_if_it_moves_less(monkeypatch):
    """Of eight saves, those in the middle take longer; only for as many bytes it is the storage."""
    step = np.arange(3, 27, 3)
    pace = np.where((step > 8) & (step < 20), 2.0, 1.0)
    duration_ns = np.full(27, 1e8)
    duration_ns[step] += 1e8 * pace
    job = SimpleNamespace(between_ends_ns=duration_ns, period_ns=1e8, tick_ns=0.0)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    for shared, named in ((pace, ["s0009"]), (np.ones(8), [])):
        saves = [Saves("s0009", step, pace, shared)]
        monkeypatch.setattr(module, "saves_of", lambda *_, own=saves: own)
        found = slow_storage(SimpleNamespace(jobs=[job]))
        assert [one.culprit for one in found] == named


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([], ["leaf0"]),
        ([("b", "leaf0")], ["leaf0"]),  # it stays below the leaf
        ([("b", "leaf0|spine1|leaf1")], []),  # it shows the leaf, whichever spine it takes
        ([("b", "leaf1|spine0|leaf0")], ["leaf0"]),  # it comes from above
    ],
)
def test_a_switch_that_all_saves_cross_and_nothing_else_may_be_slow_instead(others, named):
    """Two NICs below one leaf save over two spines to a server below another leaf."""
    paths = ["leaf0|spine0|leaf1", "leaf0|spine1|leaf1", *(path for _, path in others)]
    rows = np.arange(len(paths))
    context = SimpleNamespace(
        flows=SimpleNamespace(path=rows, paths=paths), answers={},
        topology=SimpleNamespace(addresses=["a", "b", "storage"]),
        connections=SimpleNamespace(
            src=np.minimum(rows, 1), dst=np.full(rows.size, 2), carries=rows >= 0,
            by=SimpleNamespace(rows=lambda one: np.array([one])),
        ),
    )  # fmt: skip
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    assert list(module._between(context, np.arange(2), np.arange(0))) == named


@pytest.mark.parametrize(("path", "between"), [("leaf0|spine0|leaf1", ()), ("leaf0", ("leaf0",))])
def test_what_another_job_saves_shares_the_storage_and_maybe_a_switch(path, between):
    """Eight saves of a job, and as many of another one, have more records than connections."""
    begin_ns = (np.arange(8) * 10e8).astype(np.int64)
    of_row = np.repeat([0, 1], 8)
    flows = SimpleNamespace(
        start_ns=np.tile(begin_ns, 2), end_ns=np.tile(begin_ns + int(1e8), 2),
        bytes=np.full(16, 10**9), path=of_row, paths=["leaf0|spine1|leaf1", path],
        lengths_ns=lambda rows: np.full(rows.size, 1e8),
    )  # fmt: skip
    servers = [SimpleNamespace(server=name) for name in ("s0", "s1", "storage")]
    context = SimpleNamespace(
        flows=flows, answers={},
        topology=SimpleNamespace(
            addresses=["a", "b", "storage"], servers=np.arange(3), endpoints=servers
        ),
        connections=SimpleNamespace(
            src=np.array([0, 1]), dst=np.array([2, 2]), carries=np.ones(2, bool),
            by=SimpleNamespace(rows=lambda one: np.flatnonzero(of_row == one)),
        ),
    )  # fmt: skip
    phases = SimpleNamespace(endpoints=np.array([0]))
    job = SimpleNamespace(
        phases=phases, period_ns=1e8, count=80, end_ns=(np.arange(80) + 1) * 10**8
    )
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    [saves] = module.saves_of(context, job)
    assert (saves.server, saves.between) == ("storage", between)
    assert (saves.shared_pace * 2).tolist() == saves.pace.tolist()


def test_storage_is_less_sure_where_a_switch_may_be_slow_instead(monkeypatch):
    step = np.arange(3, 27, 3)
    pace = np.where(step < 9, 1.0, 6.0)
    job = SimpleNamespace(between_ends_ns=np.full(27, 1e8), period_ns=1e8, tick_ns=0.0)
    module = import_module("llmprism.methods.prism.faults.causes.slow_storage")
    both = [Saves("s0008", step, pace, pace), Saves("s0009", step, pace, pace, ("leaf0",))]
    monkeypatch.setattr(module, "saves_of", lambda *_: both)
    sure, unsure = slow_storage(SimpleNamespace(jobs=[job]))
    assert unsure.confidence < 0.8 < sure.confidence
    assert unsure.evidence["one_of"] == ["s0009", "leaf0"]
    assert {"slow_switch", "misconfigured_switch"} < {*unsure.evidence["or_causes"]}
