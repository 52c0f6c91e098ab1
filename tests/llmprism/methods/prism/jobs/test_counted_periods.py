"""Periods of jobs whose records are ended by an exporter's timer and hold several steps.

The records are made here packet by packet: what a timer cuts, and nothing of how the method works.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice, repeat

import numpy as np
import pandas as pd
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.jobs.counted_periods import _with_times, counted_period
from llmprism.methods.prism.jobs.intervals import Interval, faster_ns
from llmprism.methods.prism.jobs.sent import Sent
from llmprism.methods.prism.records.connections import find_connections

MS = 1_000_000
STEPS = 24
PACKETS = 40  # of a message


def records(messages_ms, size, cuts_ms):
    """Records (start, end, bytes) of one connection, ended by a timer at ``cuts_ms``.

    ``messages_ms``: begin and end of each message [ms]; each has ``size`` bytes in equal packets.
    """
    begin, end = np.array(messages_ms, dtype=float).T
    when = (begin[:, None] + (end - begin)[:, None] * np.linspace(0, 1, PACKETS)).ravel()
    frame = pd.DataFrame(
        {"record": np.searchsorted(cuts_ms, when), "ms": when, "bytes": size // PACKETS}
    )
    own = frame.groupby("record").agg(
        start=("ms", "min"), end=("ms", "max"), bytes=("bytes", "sum")
    )
    return own.itertuples(index=False)


def drawn(shortest_ms=2200, longest_ms=3900):
    """When the timer of an exporter ends records [ms]: a length of its own for each connection."""
    rng = np.random.default_rng(5)
    while True:
        timer_ms = rng.uniform(shortest_ms, longest_ms)
        yield rng.uniform(0, timer_ms) + timer_ms * np.arange(100)


def inside_gradients():
    """When the timer ends records [ms], if that is always from 610 to 890 ms of each third step."""
    rng = np.random.default_rng(6)
    while True:
        yield 3000 * np.arange(STEPS // 3) + rng.uniform(610, 890, STEPS // 3)


def exported(connections, timers):
    """Flows of ``{(src, dst): (messages_ms, size)}``, with the ``timers`` of each [ms]."""
    rows = []
    for port, ((src, dst), (messages_ms, size)) in enumerate(connections.items()):
        own = records(messages_ms, size, next(timers))
        rows += [(one.start, one.end, src, dst, 1000 + port, one.bytes) for one in own]
    frame = pd.DataFrame(rows, columns=["start", "end", "src", "dst", "port", "bytes"])
    return as_table(frame.sort_values("start"))


def as_table(frame):
    """Flows of rows with start and end [ms], src, dst, port and bytes."""
    names = sorted({*frame["src"], *frame["dst"]})
    src, dst = (frame[end].map(names.index).to_numpy(np.int32) for end in ("src", "dst"))
    start_ns, end_ns = ((frame[at] * MS).to_numpy().astype(np.int64) for at in ("start", "end"))
    ports = {"src_port": frame["port"].to_numpy(np.int32), "dst_port": np.full(len(frame), 2000)}
    size = frame["bytes"].to_numpy().astype(np.int64)
    return FlowTable(start_ns, end_ns, src, dst, size, np.zeros(len(frame), np.int32), names, ["s"],
                     ports)  # fmt: skip


def steps(period_ms=1000.0, jitter=0.01, slow=()):
    """Begin of each step [ms]; those in ``slow`` take half as long again."""
    rng = np.random.default_rng(3)
    took = period_ms * (1 + jitter * rng.standard_normal(STEPS))
    took[list(slow)] *= 1.5
    return np.concatenate(([0.0], np.cumsum(took)[:-1]))


def ring(begins, at_ms=600, lasts_ms=300, ranks=4):
    """Gradients of each step, once round a ring."""
    messages = [(begin + at_ms, begin + at_ms + lasts_ms) for begin in begins]
    return {
        (f"10.0.0.{i}", f"10.0.0.{(i + 1) % ranks}"): (messages, 40_000_000) for i in range(ranks)
    }


def pipeline(begins, micro_batches=8, apart_ms=70, ranks=4):
    """Activations from each rank of the ring to one of the next stage, and gradients back."""
    found = {}
    for i in range(ranks):
        for back in (0, 1):
            at = [
                begin + apart_ms * m + 30 * back for begin in begins for m in range(micro_batches)
            ]
            ends = (f"10.0.0.{i}", f"10.0.1.{i}")
            found[ends[:: 1 - 2 * back]] = ([(t, t + 12) for t in at], 4_000_000)
    return found


def period_ms(flows):
    endpoints = np.arange(len(flows.addresses), dtype=np.int32)
    found = counted_period(flows, find_connections(flows), endpoints)
    return None if found is None else found.period_ns / MS


def test_silences_at_which_records_end_count_steps():
    begins = steps()
    true = float(np.median(np.diff(begins)))
    assert period_ms(exported(ring(begins), drawn())) == pytest.approx(true, rel=0.01)


def test_messages_of_a_pipeline_are_no_steps():
    begins = steps()
    true = float(np.median(np.diff(begins)))
    found = period_ms(exported(ring(begins) | pipeline(begins), drawn()))
    assert found == pytest.approx(true, rel=0.01)


def test_messages_are_no_steps_beside_gradients_whose_records_never_end_in_a_silence():
    begins = steps(jitter=0)
    gradients = ring(begins)
    messages = pipeline(begins, micro_batches=4, apart_ms=250)
    timers = chain(islice(inside_gradients(), len(gradients)), drawn(1100, 1900))
    assert period_ms(exported(gradients | messages, timers)) is None


def test_every_third_step_is_no_period():
    """All records end in the silence of each third step, so nothing shows the steps between."""
    timers = repeat(300 + 3000 * np.arange(STEPS))
    assert period_ms(exported(ring(steps(jitter=0)), timers)) is None


def test_slow_steps_do_not_move_the_period():
    begins = steps(slow=range(10, 16))
    assert period_ms(exported(ring(begins), drawn())) == pytest.approx(1000, rel=0.02)


def test_even_traffic_has_no_period():
    even = ring(np.arange(STEPS) * 1000.0, at_ms=0, lasts_ms=1000)
    assert period_ms(exported(even, drawn())) is None


def test_one_connection_alone_shows_no_period():
    ends, messages = next(iter(ring(steps()).items()))
    assert period_ms(exported({ends: messages}, drawn(1200, 1300))) is None


def test_a_clock_nearly_as_coarse_as_the_steps_shows_no_period():
    long = exported(ring(steps(3000), at_ms=500, lasts_ms=1500), drawn(7000, 11_000))
    assert period_ms(long) == pytest.approx(3000, rel=0.02)
    coarse = {at: getattr(long, at) // (1000 * MS) * 1000 * MS for at in ("start_ns", "end_ns")}
    assert period_ms(replace(long, **coarse)) is None


@pytest.mark.parametrize(("units", "believed"), [([7, 19, 13], False), ([3, 5, 2], True)])
def test_a_common_divisor_of_large_numbers_counts_no_steps(units, believed):
    """Of layers, say. Each record holds as many units, which take 20 ms each."""
    held = np.array(units * 8)
    end_ns = np.cumsum(20 * held + 5) * MS
    rest_ns = np.full(held.size - 1, 5 * MS)
    sent = Sent(20 * held * MS, end_ns, rest_ns, np.cumsum(held) * 100_000.0)
    assert (_with_times([sent] * 4, 100_000.0, MS) is not None) == believed


def test_random_volumes_have_no_period():
    rng = np.random.default_rng(8)
    found = {}
    for ends in ring(steps()):
        at = np.cumsum(rng.exponential(400, 60))
        size = int(rng.uniform(1, 9) * 1e6) // PACKETS * PACKETS
        found[ends] = ([(t, t + 60) for t in at], size)
    assert period_ms(exported(found, drawn())) is None


def test_a_few_short_intervals_are_no_faster_steps():
    """Steps of 1,400 ns; records of some connections last until the next step begins."""
    right = [(1, 3, 1415), (3, 7, 1403), (7, 8, 1414), (8, 12, 1396), (12, 13, 1412)]
    wrong = [(3, 7, 1707), (7, 8, 198), (8, 12, 1583), (12, 13, 775), (12, 17, 1165)]
    intervals = [Interval(*one) for one in right + wrong]
    assert faster_ns(intervals) == pytest.approx(1400, rel=0.01)


def test_a_long_interval_that_holds_slow_steps_shows_no_faster_ones():
    fast, slow = [(3, 6, 1000), (9, 12, 1010)], [(6, 9, 1200), (3, 12, 1070)]
    intervals = [Interval(*one) for one in fast + slow]
    assert faster_ns(intervals) == pytest.approx(1000, rel=0.01)
