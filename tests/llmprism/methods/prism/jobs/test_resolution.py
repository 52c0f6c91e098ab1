"""Jobs without a timeline: a timer ends their records, or all records are longer than a step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.jobs.resolution import refusal

MS = 1_000_000


def job_of(lengths_ms, period_ms, steps=20, rest_ms=10, beside=0):
    """A job whose one connection has records; the last ``beside`` of them are on another one."""
    end = (np.arange(steps) * period_ms * MS).astype(np.int64)
    rows = np.arange(len(lengths_ms))
    own = rows[: rows.size - beside]
    traffic = SimpleNamespace(row=own)
    one = SimpleNamespace(traffic=traffic, connections=np.array([0]))
    part = SimpleNamespace(
        component=SimpleNamespace(classes=[one]),
        stepping=SimpleNamespace(
            start_ns=end - (period_ms - rest_ms) * MS, end_ns=end, count=steps, quality=0.99
        ),
    )
    length_ns = np.array(lengths_ms) * MS
    end_ns = np.cumsum(length_ns + rest_ms * MS)
    flows = SimpleNamespace(
        lengths_ns=length_ns.__getitem__, start_ns=end_ns - length_ns, end_ns=end_ns, meta={}
    )
    connections = SimpleNamespace(
        size=np.full(rows.size, 1000), of_row=(rows >= own.size).astype(np.int32),
        src=np.array([0, 1]), dst=np.array([1, 0]), carries=np.array([True, True]),
        by=SimpleNamespace(rows=lambda number: rows[own.size :] if number else own),
    )  # fmt: skip
    return flows, connections, SimpleNamespace(endpoints=np.array([0, 1]), epochs=((part,),))


@pytest.mark.parametrize(
    ("lengths_ms", "period_ms", "meta", "refused"),
    [
        ([100] * 50, 1090, {}, False),  # short for a step
        ([990] * 50, 1090, {}, True),  # all a little shorter than a round timeout
        ([870] * 50, 1090, {}, False),  # long, but a silence ended each
        ([870] * 50, 1090, {"active_timeout_ns": "900000000"}, True),
        ([870] * 50, 1090, {"idle_gap_ns": "15000000000"}, True),
    ],
)
def test_steps_that_a_timer_made_are_refused(lengths_ms, period_ms, meta, refused):
    flows, connections, job = job_of(lengths_ms, period_ms)
    flows.meta = meta
    found = refusal(flows, connections, job)
    assert (found is not None) == refused


def test_records_as_long_as_a_timeout_that_silence_ended_are_no_work_of_a_timer():
    flows, connections, job = job_of([990] * 50, 1090, rest_ms=100)
    assert refusal(flows, connections, job) is None


@pytest.mark.parametrize(("rest_ms", "refused"), [(240, True), (1100, False)])
def test_parts_between_which_no_silence_ends_a_record_are_those_of_the_timer(rest_ms, refused):
    """Three records in each part of 3.2 s; the exporter waits for a silence of a second."""
    flows, connections, job = job_of([990] * 60, 3200, rest_ms=rest_ms)
    flows.meta = {"active_timeout_ns": "1000000000", "idle_gap_ns": "1000000000"}
    assert (refusal(flows, connections, job) is not None) == refused


def test_long_records_and_a_handful_of_parts_are_no_evidence():
    flows, connections, job = job_of([870] * 9, 1090, steps=3)
    assert refusal(flows, connections, job) is not None


@pytest.mark.parametrize("beside", [10, 80])
def test_records_of_several_steps_between_members_count_though_they_do_not_repeat(beside):
    flows, connections, job = job_of([10] * 20 + [3000] * beside, 100, beside=beside)
    assert (refusal(flows, connections, job) is not None) == (beside == 80)
