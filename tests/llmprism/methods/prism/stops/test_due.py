"""Which rank of a pipeline was to send first what none of them sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from llmprism.methods.prism.stops.due import in_order_of_sending

from llmprism.methods.prism.stops import progress

FIRST, SECOND = 0, 1
STEPS, STEP_NS, BYTES = 8, 100, 1000


def job_with(kind: str) -> tuple[Any, Any]:
    """One rank sends all it has to another in one record, and gets the answers in one."""
    begin = np.arange(STEPS) * STEP_NS
    start = np.concatenate((begin + 10, begin + 20, [0, 0]))  # the last two are of the tail
    end = np.concatenate((begin + 30, begin + 40, [1, 1]))
    src = np.array([FIRST] * STEPS + [SECOND] * STEPS + [FIRST, SECOND])
    flows = SimpleNamespace(src=src, start_ns=start, end_ns=end, bytes=np.full(src.size, BYTES))
    flows.lengths_ns = lambda rows: end[rows] - start[rows]
    part = SimpleNamespace(kind=kind, step=np.tile(np.arange(STEPS), 2))
    part.one = SimpleNamespace(traffic=SimpleNamespace(row=np.arange(2 * STEPS)))
    job = SimpleNamespace(count=STEPS, phases=SimpleNamespace(classes=[part]))
    return SimpleNamespace(flows=flows), job


@pytest.mark.parametrize(
    ("sent", "came", "expected"),
    [(0.0, 0.0, FIRST), (0.2, 0.0, FIRST), (0.7, 0.0, SECOND), (1.0, 0.9, SECOND)],
)
@pytest.mark.parametrize("kind", ["pp", "tp"])  # merged records do not tell these apart
def test_the_rank_that_was_to_send_first_is_named_first(kind, sent, came, expected):
    context, job = job_with(kind)
    context.flows.bytes[-2:] = BYTES * sent, BYTES * came
    tail: Any = SimpleNamespace(rows={kind: np.array([2 * STEPS, 2 * STEPS + 1])})
    for ends in ([FIRST, SECOND], [SECOND, FIRST]):
        assert in_order_of_sending(context, job, tail, ends)[0] == expected


def test_ranks_without_a_pipeline_stay_in_order():
    context, job = job_with("dp")
    assert in_order_of_sending(context, job, SimpleNamespace(rows={}), [SECOND, FIRST]) == [1, 0]


@pytest.mark.parametrize("late", [FIRST, SECOND])
def test_of_ranks_that_seem_ready_at_once_the_one_that_is_due_first_is_named(monkeypatch, late):
    def of(end: int) -> Any:
        due_ns = 20.0 if end == late else 10.0
        goal = [SECOND if end == FIRST else FIRST]
        return SimpleNamespace(next_goal=lambda: goal, lacks_records=False, due_ns=lambda: due_ns)

    monkeypatch.setattr(progress, "pipelines_behind", lambda *_: {0})
    monkeypatch.setattr(progress, "_ready_ns", lambda *_: {FIRST: 5, SECOND: 5})
    monkeypatch.setattr(progress, "unfinished_groups", lambda *_: set())
    monkeypatch.setattr(progress, "Needs", lambda *_: SimpleNamespace(of=of))
    context, job = job_with("pp")
    tail: Any = SimpleNamespace(rows={"pp": np.arange(1)}, begin_ns=0)
    found = progress.stuck_in_pipeline(context, job, tail)
    assert found is not None
    assert (found.endpoint, found.others) == (1 - late, (late,))
