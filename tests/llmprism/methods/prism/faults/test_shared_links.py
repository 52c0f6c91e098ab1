"""Transfers that lack what other traffic on their link has: neither they nor the link are slow."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.shared_links import are_full, shares_links
from llmprism.methods.prism.faults.suspects.suspects import Suspect

MODULE = importlib.import_module("llmprism.methods.prism.faults.shared_links")
STEPS, FIRST, LAST = 20, 8, 13
STEP_NS, HEALTHY_NS, SIZE = 100_000_000, 10_000_000, 500_000_000
PATHS = ["leaf0|spine0|leaf1", "leaf0|spine1|leaf1", "leaf2|spine0|leaf1"]
ENDS = {"a": 0, "b": 1, "c": 2, "d": 3}


class Counted(SimpleNamespace):
    """A number of connections, or of records."""

    def __len__(self) -> int:
        return int(self.count)


def world(
    lasts: float, other_share: float, other_path: int = 0, ring: int = -1, busy: float = 0
) -> tuple[Any, Any]:
    """A job that sends from a to b in every step, and other traffic from c to d in slow steps.

    What the job sends ``lasts`` so many times as long in the slow steps. The others move a share
    of as many bytes meanwhile. With a ``ring``, another connection of the job is in it as well,
    over spine 1, and all go at one pace. With ``busy``, the others also move so many times the
    bytes of a healthy transfer of the job, in its time, between all of its steps.
    """
    rows = []
    for step in range(STEPS):
        slow = FIRST <= step <= LAST
        begin, lasted = step * STEP_NS, round(HEALTHY_NS * (lasts if slow else 1))
        rows.append((0, begin, begin + lasted, 0, 1, SIZE, 0))
        rows.append((2, begin, begin + lasted, 1, 0, SIZE, 1))
        if slow and other_share:
            rows.append((1, begin, begin + lasted, 2, 3, round(other_share * SIZE), other_path))
        if busy:
            later = begin + STEP_NS // 2
            rows.append((1, later, later + HEALTHY_NS, 2, 3, round(busy * SIZE), other_path))
    of_row, start, end, src, dst, size, path = (np.array(one) for one in zip(*rows, strict=True))
    flows = Counted(
        count=start.size, start_ns=start, end_ns=end, src=src, dst=dst, bytes=size, path=path,
        paths=PATHS, lengths_ns=lambda at: end[at] - start[at],
    )  # fmt: skip
    connections = Counted(
        count=3, of_row=of_row, by=SimpleNamespace(rows=lambda one: np.flatnonzero(of_row == one))
    )
    links = [
        frozenset({"a>out", "leaf0>spine0", "leaf0>up", "spine0>leaf1", "b>in", "spine0"}),
        frozenset({"b>out", "leaf0>spine1", "leaf0>up", "spine1>leaf1", "a>in", "spine1"}),
    ]
    rates = SimpleNamespace(crosses=links, group=np.array([ring, ring]))
    part = SimpleNamespace(one=SimpleNamespace(connections=np.array([0, 2])))
    begin = np.arange(STEPS) * STEP_NS
    job: Any = SimpleNamespace(
        phases=SimpleNamespace(classes=[part]), start_ns=begin, end_ns=begin + STEP_NS // 2
    )
    topology = SimpleNamespace(codes=ENDS)
    context = SimpleNamespace(flows=flows, connections=connections, topology=topology, measured={})
    return context, (job, rates)


def is_shared(
    monkeypatch: pytest.MonkeyPatch, built: tuple[Any, Any], part: str = "spine0"
) -> bool:
    context, (job, rates) = built
    monkeypatch.setattr(MODULE, "rates_of", lambda *_: rates)
    one = Suspect(
        job, "network", "slow_transfers", "slow_switch", "switch", part, FIRST, LAST, 0.5, 0.7,
        {"suspects": [{"name": part}]},
    )  # fmt: skip
    return shares_links(context, one)


@pytest.mark.parametrize(
    ("lasts", "other", "path", "shared"),
    [
        (2.0, 1.0, 0, True),  # two share a link
        (4.0, 3.0, 0, True),  # four do
        (2.0, 1.0, 2, True),  # they meet behind the spine
        (2.0, 1.0, 1, False),  # others use another spine
        (2.0, 0.0, 0, False),  # nobody does
        (2.0, 0.2, 0, False),  # others move little
        (4.0, 1.0, 0, False),  # two share a link that has half its speed
    ],
)
def test_a_link_that_others_fill_is_not_slow(monkeypatch, lasts, other, path, shared):
    assert is_shared(monkeypatch, world(lasts, other, path)) is shared


@pytest.mark.parametrize(("busy", "shared"), [(0.0, True), (1.0, True), (4.0, False)])
def test_a_link_that_could_carry_more_is_not_full(monkeypatch, busy, shared):
    """Four jobs share a slow uplink that carries four times as much at other times."""
    assert is_shared(monkeypatch, world(4.0, 3.0, busy=busy)) is shared


@pytest.mark.parametrize(("ring", "shared"), [(0, True), (-1, False)])
def test_a_ring_goes_at_the_pace_of_its_most_crowded_hop(monkeypatch, ring, shared):
    """What crosses spine 1 lacks what others have on a link that another hop of its ring shares."""
    assert is_shared(monkeypatch, world(2.0, 1.0, 0, ring), "spine1") is shared


def test_only_slow_transfers_are_explained_by_others(monkeypatch):
    context, (job, rates) = world(2.0, 1.0)
    monkeypatch.setattr(MODULE, "rates_of", lambda *_: rates)
    late = Suspect(
        job, "rank", "slow_passes", "slow_gpu", "address", "a", FIRST, LAST, 0.5, 0.9,
        {"suspects": [{"name": "spine0"}]},
    )  # fmt: skip
    assert not shares_links(context, late)


@pytest.mark.parametrize(
    ("others", "full"), [(3, True), (0, False)], ids=["four share a link", "alone on a slow link"]
)
def test_links_are_full_where_messages_take_turns_in_every_step(monkeypatch, others, full):
    """Messages take four times as long as those of peers: with three others, or by themselves."""
    start = np.repeat(np.arange(10) * STEP_NS, 1 + others)
    number = np.tile(np.arange(1 + others), 10)
    flows = Counted(
        count=start.size, start_ns=start, end_ns=start + 4 * HEALTHY_NS, src=number, dst=number,
        bytes=np.full(start.size, SIZE), path=np.zeros(start.size, int), paths=["leaf0|spine0"],
        lengths_ns=lambda at: np.full(at.size, 4 * HEALTHY_NS),
    )  # fmt: skip
    by = SimpleNamespace(rows=lambda one: np.flatnonzero(number == one))
    rates = SimpleNamespace(kind=["pp"], crosses=[frozenset({"leaf0>spine0", "leaf0|spine0"})])
    monkeypatch.setattr(MODULE, "rates_of", lambda *_: rates)
    context: Any = SimpleNamespace(
        flows=flows, measured={}, connections=Counted(count=1 + others, by=by),
        topology=SimpleNamespace(codes={}),
    )  # fmt: skip
    classes = [SimpleNamespace(one=SimpleNamespace(connections=np.array([0])))]
    job: Any = SimpleNamespace(phases=SimpleNamespace(classes=classes))
    evidence = {"suspects": [{"name": "leaf0|spine0"}], "ratio_to_peers": 4.0}
    one: Any = SimpleNamespace(job=job, symptom="slow_transfers", evidence=evidence)
    assert are_full(context, one) == full
