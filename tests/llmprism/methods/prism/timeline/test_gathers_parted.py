"""Gathers that the end of a step parts, and records that begin within a step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.methods.prism.timeline.gathers import _in_one_step

COUNT, EACH = 6, 30  # steps, and messages of a step: 20 of gradients, 10 of parameters


def steps_of(missing: int, edges: list[int]) -> tuple[Any, KindOf]:
    """Equal messages of a connection without the first ones, and steps that begin at ``edges``."""
    size = np.full(COUNT * EACH - missing, 100)
    start, one = np.arange(size.size) * 1000, np.zeros(size.size, np.int32)
    rows = np.arange(size.size)
    traffic = Traffic(rows, start, start + 900, size, one, np.ones(size.size, np.bool_))
    step = np.searchsorted(edges, rows, side="right").astype(np.int32)
    connections: Any = SimpleNamespace(src=np.zeros(1), of_row=np.zeros(size.size, np.int64))
    return connections, KindOf(TrafficClass(np.zeros(1, np.int64), False, traffic), "dp", 1.0, step)


@pytest.mark.parametrize("early", [3, 7])
def test_steps_that_begin_within_gathers_are_whole_steps_then(early):
    """The job begins with gradients: the first step lacks some gathers, and the last one others."""
    connections, one = steps_of(10, [20 + early + EACH * i for i in range(COUNT - 1)])
    found = _in_one_step(connections, COUNT, one)
    assert np.bincount(found.step).tolist() == [EACH] * (COUNT - 1) + [20]


def test_a_first_step_may_lack_all_gathers():
    connections, one = steps_of(10, [20 + EACH * i for i in range(COUNT - 1)])
    found = _in_one_step(connections, COUNT, one)
    assert np.bincount(found.step).tolist() == [EACH] * (COUNT - 1) + [20]


def test_records_that_begin_within_a_step_lack_no_gathers():
    """They lack 7 of 30 messages. A quarter would be gathers beside three times as many bytes."""
    connections, one = steps_of(7, [23 + EACH * i for i in range(COUNT - 1)])
    assert _in_one_step(connections, COUNT, one) is one
