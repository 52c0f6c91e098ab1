"""What an endpoint needs is found among its own records only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.stops.progress import LEARNED, Needs, learned_from

STEPS = 5


@pytest.fixture(params=range(5))
def drawn(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Random messages between nine endpoints of ten, and the needs learned from them."""
    draws = np.random.default_rng(request.param)
    src, dst = draws.integers(0, 9, (2, 400)).astype(np.int32)
    start = draws.permutation(400)
    flows = SimpleNamespace(
        src=src, dst=dst, start_ns=start, end_ns=start + 9, addresses=["a"] * 10,
        lengths_ns=np.full(400, 9).__getitem__, bytes=np.ones(400),
    )  # fmt: skip
    rows = draws.permutation(400)[:300]
    world = SimpleNamespace(flows=flows, rows=rows, step=draws.integers(-1, STEPS, 300))
    part = SimpleNamespace(kind="pp", step=world.step)
    part.one = SimpleNamespace(traffic=SimpleNamespace(row=rows))
    lines = SimpleNamespace(messages=1)
    job: Any = SimpleNamespace(phases=SimpleNamespace(classes=[part]), count=STEPS, pipelines=lines)
    context: Any = SimpleNamespace(flows=flows)
    return world, Needs(context, job, np.empty(0, np.int64), 0)


def test_messages_of_an_endpoint_are_those_of_a_search_in_all_rows(drawn: tuple[Any, Any]) -> None:
    world, needs = drawn
    src, dst = world.flows.src[world.rows], world.flows.dst[world.rows]
    for end in range(10):  # the last one has no row
        own = needs.of(end).learned
        known = (world.step >= 0) & (world.step < STEPS - 1)
        expected = known & ((src == end) | (dst == end))
        np.testing.assert_array_equal(own.begin_ns, world.flows.start_ns[world.rows[expected]])
        np.testing.assert_array_equal(own.step, world.step[expected])


def test_needs_are_what_came_before_in_every_usual_step(drawn: tuple[Any, Any]) -> None:
    world, needs = drawn
    flows = world.flows
    for end in range(10):
        sent, came = [], []
        for step in range(STEPS - 1):  # the last one may be unfinished
            rows = world.rows[world.step == step]
            sent.append(sorted(flows.start_ns[rows[flows.src[rows] == end]].tolist()))
            came.append(
                [(flows.src[row], flows.end_ns[row]) for row in rows if flows.dst[row] == end]
            )
        usual = int(np.median([len(own) for own in sent]))
        whole = [step for step, own in enumerate(sent) if len(own) == usual]
        for number in range(usual):
            needed = needs.of(end).needed(number)
            for partner in range(9):
                counts = [
                    sum(who == partner and ended <= sent[step][number] for who, ended in came[step])
                    for step in whole
                ]
                if whole:
                    assert needed.get(partner, 0) == min(counts)
        assert needs.of(end).needed(usual) is None


def test_needs_are_learned_from_steps_all_over_a_long_job() -> None:
    for count in (0, 1, LEARNED - 1, LEARNED, LEARNED + 1, 10 * LEARNED):
        number = learned_from(count)
        chosen = np.flatnonzero(number >= 0)
        assert chosen.size == min(count, LEARNED)
        assert number[chosen].tolist() == list(range(chosen.size))
        assert number[-1] == -1  # of a record whose step is unknown
        if count:
            assert chosen[-1] == count - 1  # the step that may be cut stays the last one
            assert np.diff(chosen, prepend=0).max() <= count / LEARNED + 2
