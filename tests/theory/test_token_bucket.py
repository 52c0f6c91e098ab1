"""Token buckets in front of links: bursts at once, the mean rate never above the capacity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric_bench import Bench
from prism_sim.training.collectives.segmented import follow


def bench(*buckets: float) -> Bench:
    """Links of one byte per nanosecond, with buckets of these sizes."""
    made = Bench(*(1.0 for _ in buckets))
    made.fabric.net.link["bucket_bytes"] = made.fabric.net.link["tokens"] = buckets
    return made


def test_a_burst_passes_at_once_and_the_rest_at_the_rate():
    b = bench(300)
    b.flow("long", [0], 1000)
    assert b.run() == [(700, "long")]


def test_a_message_within_the_burst_takes_no_time():
    b = bench(300)
    b.flow("short", [0], 300, at=10)
    assert b.run() == [(10, "short")]


def test_the_bucket_fills_only_while_the_link_is_idle():
    """It is empty at 700, has 100 bytes at 800, and cannot hold more than 300."""
    b = bench(300)
    b.flow("first", [0], 1000)
    b.flow("soon", [0], 500, at=800)
    b.flow("late", [0], 500, at=9000)
    assert b.run() == [(700, "first"), (1200, "soon"), (9200, "late")]


def test_a_flow_that_joins_a_busy_link_finds_the_bucket_empty():
    """From 100 on both have half of the rate."""
    b = bench(300)
    b.flow("one", [0], 1000)
    b.flow("two", [0], 300, at=100)
    assert b.run() == [(700, "two"), (1000, "one")]


def test_a_slower_flow_leaves_tokens_for_the_next():
    """The first one takes half of the rate, so 200 ns refill 100 bytes."""
    b = bench(300)
    b.flow("slow", [0], 1000, cap=0.5)
    b.flow("next", [0], 100, at=200)
    assert b.run() == [(200, "next"), (1400, "slow")]


def test_the_smallest_bucket_of_a_path_decides():
    b = bench(300, 100)
    b.flow("both", [0, 1], 1000)
    b.flow("after", [0], 300, at=900)  # 200 tokens are left in the first bucket
    assert b.run() == [(900, "both"), (1000, "after")]


def test_without_a_bucket_nothing_is_sent_at_once():
    b = bench(0)
    b.flow("plain", [0], 1000)
    assert b.run() == [(1000, "plain")]


flows = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 2000)), min_size=1, max_size=8)


@given(flows, st.integers(0, 500))
def test_a_bucket_saves_at_most_its_size_in_a_busy_period(sent, size):
    """The link ends its work earlier than without a bucket, by at most the bucket's time."""
    ends = []
    for bucket in (0, size):
        b = bench(bucket)
        for number, (at, length) in enumerate(sent):
            b.flow(str(number), [0], length, at=at)
        ends.append(max(at for at, _ in b.run()))
    plain, bursty = ends
    assert plain - size - len(sent) <= bursty <= plain + len(sent)


@pytest.mark.parametrize(("burst_ns", "ends"), [(0.0, [10, 20, 33, 43]), (3.0, [10, 20, 30, 40])])
def test_a_ring_makes_up_for_the_silence_between_its_rounds(burst_ns, ends):
    """Two segments a round, and 3 ns of silence between the rounds."""
    handling = np.full((2, 4), 3.0)
    run = follow([0, 0], np.full(2, 10.0), np.zeros(2), handling, 2, burst_ns=burst_ns)
    assert run.end[0].tolist() == ends
