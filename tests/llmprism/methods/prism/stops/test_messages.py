"""Messages are counted by their bytes, whatever records hold them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llmprism.methods.prism.stops.messages import (
    message_sizes,
    messages_of,
    pipelines_behind,
)


def test_a_record_of_four_messages_counts_as_four():
    flows = SimpleNamespace(
        src=np.zeros(2, np.int32), dst=np.ones(2, np.int32), addresses=["a", "b"],
        bytes=np.array([400, 100]), start_ns=np.array([0, 900]),
        lengths_ns=np.array([800, 100]).__getitem__,
    )  # fmt: skip
    rows, step = np.array([0, 1]), np.zeros(2, np.int64)
    held = messages_of(flows, rows, step, message_sizes(flows, rows, step, messages=5))
    assert held.begin_ns.tolist() == [0, 200, 400, 600, 900]
    assert held.end_ns.tolist() == [200, 400, 600, 800, 1000]


def test_most_records_of_one_size_hold_one_message_each_whatever_was_counted():
    """A step has more messages than was found, as some lead back to the first stage."""
    size = np.array([400, 100, 100, 100, 100, 100])
    flows = SimpleNamespace(
        src=np.zeros(6, np.int32), dst=np.ones(6, np.int32), addresses=["a", "b"], bytes=size,
        start_ns=np.arange(6) * 1000, lengths_ns=np.full(6, 400).__getitem__,
    )  # fmt: skip
    rows, step = np.arange(6), np.zeros(6, np.int64)
    held = messages_of(flows, rows, step, message_sizes(flows, rows, step, messages=5))
    assert held.begin_ns.size == 9


def behind(bytes_of_tail):
    """Three pipelines of one sender each; in finished steps each moves 100 bytes."""
    steps, lanes = 4, 3
    tail = np.arange(steps * lanes, steps * lanes + lanes)
    flows = SimpleNamespace(
        src=np.tile(np.arange(lanes), steps + 1),
        bytes=np.concatenate([np.full(steps * lanes, 100), bytes_of_tail]),
    )
    part = SimpleNamespace(kind="pp", step=np.repeat(np.arange(steps), lanes))
    part.one = SimpleNamespace(traffic=SimpleNamespace(row=np.arange(steps * lanes)))
    job = SimpleNamespace(
        phases=SimpleNamespace(classes=[part], endpoints=np.arange(lanes)),
        pipelines=SimpleNamespace(number=np.arange(lanes)),
        count=steps,
    )
    return pipelines_behind(SimpleNamespace(flows=flows), job, tail)  # type: ignore[arg-type]


def test_the_replica_that_moved_least_is_behind():
    assert behind([100, 40, 98]) == {1}


def test_where_records_are_cut_no_replica_is_behind():
    assert behind([62, 60, 58]) == set()


def test_a_step_that_has_hardly_begun_shows_nothing():
    assert behind([20, 0, 10]) == set()
