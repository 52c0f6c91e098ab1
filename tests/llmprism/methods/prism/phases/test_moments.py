"""A rank has finished a collective when it has received everything, whatever it still sends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.phases.moments import (
    BUFFER,
    HELD,
    MISSING,
    REST_NS,
    WRITABLE,
    moments_of,
)
from llmprism.methods.prism.records.traffic import Traffic

STEPS, PERIOD = 6, 1000
LEAVES = 40
"""How much later than it arrives at the second rank the last record of the first one ends [ns]."""


TCP, UDP = 6, 17


def moved(
    size: np.ndarray[Any, Any], drop: int | None = None, protocol: int = TCP
) -> tuple[Any, Any, Any]:
    """Two ranks that send each other one record a step, of ``size`` (steps, 2) bytes.

    The one that the first rank sends ends later. Record number ``drop`` is missing.
    """
    step = np.repeat(np.arange(STEPS), 2)
    src = np.tile([0, 1], STEPS)
    start = step * PERIOD + 500
    end = start + 100 + np.where(src == 0, LEAVES, 0)
    kept = np.arange(step.size) != (-1 if drop is None else drop)
    flows = SimpleNamespace(
        src=src[kept].astype(np.int32), dst=(1 - src[kept]).astype(np.int32), addresses=["a", "b"],
        optional={"protocol": np.full(kept.sum(), protocol)},
    )  # fmt: skip
    row, couple = np.arange(kept.sum(), dtype=np.int32), np.zeros(kept.sum(), np.int32)
    traffic = Traffic(row, start[kept], end[kept], size.ravel()[kept], couple, src[kept] == 0)
    return flows, traffic, step[kept]


def ends(size: np.ndarray[Any, Any], collectives: bool = True, **how: Any) -> Any:
    flows, traffic, step = moved(size, **how)
    own = moments_of(flows, [(traffic, step)], np.array([0, 1], np.int32), STEPS, collectives)
    known = own.end_ns != MISSING
    return np.where(known, own.end_ns - np.arange(STEPS) * PERIOD - 500, -1)


EQUAL = np.full((STEPS, 2), 10_000)


def test_what_leaves_a_buffer_later_does_not_delay_the_sender() -> None:
    assert ends(EQUAL).tolist() == [[100] * STEPS, [100 + LEAVES] * STEPS]


def sender(begin_ns: Any, end_ns: Any, size: Any) -> Any:
    """End of the step of a rank that sends these records, and receives one in the first 100 ns."""
    start, end = np.append(begin_ns, 0), np.append(end_ns, 100)
    size = np.append(size, BUFFER)
    src = np.append(np.zeros(len(begin_ns), np.int32), 1).astype(np.int32)
    flows: Any = SimpleNamespace(src=src, dst=1 - src, addresses=["a", "b"], optional={})
    row, couple = np.arange(src.size, dtype=np.int32), np.zeros(src.size, np.int32)
    traffic = Traffic(row, start, end, size, couple, src == 0)
    step = np.zeros(src.size, np.int64)
    found = moments_of(flows, [(traffic, step)], np.array([0, 1], np.int32), 1)
    assert found.end_ns[1] == end.max()
    return found.end_ns[0]


@pytest.mark.parametrize("records", [1, 4])
def test_a_rank_waits_until_the_buffer_takes_the_rest(records: int) -> None:
    """It sends ten buffers in 1,000 ns."""
    cut = np.linspace(0, 1000, records + 1).astype(np.int64)
    size = np.full(records, 10 * BUFFER // records)
    waits = 1000 * (1 - WRITABLE / (10 * BUFFER))
    assert sender(cut[:-1], cut[1:], size) == pytest.approx(waits, abs=1)


def test_a_message_that_the_buffer_holds_is_written_at_once_but_for_a_little() -> None:
    """It follows one that needs more, after a rest."""
    size = np.array([10 * BUFFER, BUFFER])
    later = REST_NS + 1000 + np.array([1, 1001])
    ends = sender(np.array([0, later[0]]), np.array([1000, later[1]]), size)
    assert ends == pytest.approx(later[0] + 1000 * (1 - HELD / BUFFER), abs=1)


def test_what_a_nic_reads_from_memory_delays_the_sender() -> None:
    assert ends(EQUAL, protocol=UDP).tolist() == [[100 + LEAVES] * STEPS] * 2


def test_a_rank_that_only_sends_finishes_when_it_has_sent() -> None:
    flows, traffic, step = moved(EQUAL)
    one_way = np.flatnonzero(flows.src == 0)
    only = Traffic(*(side[one_way] for side in vars(traffic).values()))
    found = moments_of(flows, [(only, step[one_way])], np.array([0, 1], np.int32), STEPS)
    assert (found.end_ns[0] == found.end_ns[1]).all()


@pytest.mark.parametrize("step", [0, 3])
def test_where_a_received_record_was_lost_the_sent_one_shows_the_end(step: int) -> None:
    found = ends(EQUAL, drop=2 * step + 1)[0]
    assert found[step] == 100 + LEAVES
    assert (np.delete(found, step) == 100).all()


def test_under_sampling_all_records_show_the_end() -> None:
    size = np.random.default_rng(1).integers(5_000, 15_000, (STEPS, 2))
    assert ends(size).tolist() == [[100 + LEAVES] * STEPS] * 2


def test_messages_of_a_pipeline_end_when_they_are_sent() -> None:
    assert ends(EQUAL, collectives=False).tolist() == [[100 + LEAVES] * STEPS] * 2
