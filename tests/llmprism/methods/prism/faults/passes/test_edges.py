"""First and last passes of stages whose messages are merged into one record."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism import diagnose
from llmprism.methods.prism import method
from llmprism.methods.prism.faults import find_findings
from llmprism.methods.prism.faults.passes import edges
from llmprism.methods.prism.faults.passes.edges import edge_passes_ns

SILENCE_NS = 150_000_000  # longer than two passes, and shorter than the collectives of a step


def bridged(flows: pd.DataFrame) -> pd.DataFrame:
    """``flows`` as of an exporter that ends a record after a long silence only."""
    ordered = flows.sort_values(["src", "dst", "start_ns"])
    before = ordered.groupby(["src", "dst"])["end_ns"].shift()
    number = (~(ordered["start_ns"] - before < SILENCE_NS)).cumsum()
    named = ordered.groupby(number)
    merged = named.agg(
        {"start_ns": "min", "end_ns": "max", "src": "first", "dst": "first", "bytes": "sum",
         "path": "first"}
    )  # fmt: skip
    return merged.sort_values("start_ns").reset_index(drop=True)


@pytest.mark.parametrize("slow", [0, 1])
@pytest.mark.parametrize(("pp", "dp"), [(2, 2), (4, 2), (2, 3)])
def test_replicas_that_wait_for_a_slow_one_are_not_slow(monkeypatch, make_world, slow, pp, dp):
    """Collectives in which all begin together, so that who waits shows only by who came late."""
    taken: list[Any] = []
    monkeypatch.setattr(
        method, "find_findings", lambda one: taken.append(one) or find_findings(one)
    )
    steps = {(slow, step): 1.4 for step in range(8, 14)}
    world = make_world(dp=dp, pp=pp, steps=24, slow=steps)
    diagnose(bridged(world.flows), world.topology, method="prism")
    [job] = taken[0].jobs
    first = job.pipelines.stage == 0
    names = [taken[0].topology.addresses[end] for end in job.phases.endpoints[first].tolist()]
    back_ns = edge_passes_ns(taken[0], job)[first, :, 1]
    longer = np.nanmedian(back_ns[:, 8:14], axis=1) / np.nanmedian(back_ns[:, 14:], axis=1)
    assert (longer < 1.5).all(), dict(zip(names, longer, strict=True))


def test_a_stage_that_is_not_done_with_the_step_before_shows_no_first_pass(monkeypatch):
    """Its collectives took longer than those of the first stage, in the first of three steps."""
    ended = np.array([[90.0, 190.0, 290.0], [140.0, 185.0, 285.0], [80.0, 180.0, 280.0]])
    phases = SimpleNamespace(endpoints=np.arange(3), first_of_epoch=[0], dp_group=np.full(3, -1))
    lines = SimpleNamespace(number=np.zeros(3, np.int64), stage=np.arange(3))
    job: Any = SimpleNamespace(
        count=3, phases=phases, pipelines=lines, ranks=SimpleNamespace(end=ended)
    )
    begin = {(0, 1): [20.0, 120.0, 220.0], (1, 2): [30.0, 160.0, 230.0]}
    end = {(2, 1): [60.0, 165.0, 260.0], (1, 0): [75.0, 180.0, 275.0]}
    moments = [
        edges._Moments(3, {pair: np.array(when) for pair, when in every.items()})
        for every in (begin, end, end)
    ]
    monkeypatch.setattr(edges, "_edges", lambda *_: edges._Edges(*moments, edges._Moments(3, {})))
    monkeypatch.setattr(edges, "_collective_ns", lambda _: np.full((3, 3), np.nan))
    monkeypatch.setattr(edges, "_all_there", lambda *_: np.full((3, 3), np.nan))
    forth, back = edge_passes_ns(SimpleNamespace(), job)[1].T
    np.testing.assert_array_equal(forth, [10.0, np.nan, 10.0])
    np.testing.assert_array_equal(back, [15.0, 15.0, 15.0])


@pytest.mark.parametrize(
    ("first_answer", "last_answer", "shown"),
    [(20.0, 20.0, True), (60.0, 40.0, False), (35.0, 10.0, False)],
    ids=["answers each activation", "GPipe", "several parts of the model"],
)
def test_a_last_stage_shows_the_begin_of_its_first_answer(
    monkeypatch, first_answer, last_answer, shown
):
    """Activations come from 10 to 50; in the second of five steps the answer is 13 later.

    In the third one the first activation is on the wire for 30 longer. In the last one four of an
    evaluation come before the eight of the step.
    """
    phases = SimpleNamespace(endpoints=np.arange(2), first_of_epoch=[0], dp_group=np.full(2, -1))
    lines = SimpleNamespace(number=np.zeros(2, np.int64), stage=np.arange(2))
    ranks = SimpleNamespace(end=np.array([[90.0, 190.0, 290.0, 390.0, 490.0]] * 2))
    job: Any = SimpleNamespace(count=5, phases=phases, pipelines=lines, ranks=ranks)
    steps, late = 100.0 * np.arange(5), np.array([0.0, 13.0, 0.0, 0.0, 0.0])
    wire = np.array([2.0, 2.0, 32.0, 2.0, 2.0])
    begin = {(0, 1): steps + 10, (1, 0): steps + 8 + wire + first_answer + late}
    end = {(0, 1): steps + 50, (1, 0): steps + 50 + last_answer}
    first_end = {(0, 1): steps + 10 + wire, (1, 0): end[1, 0]}
    sizes = {(0, 1): 1e6 * np.array([8.0, 8.0, 8.0, 8.0, 12.0]), (1, 0): np.full(5, 8e6)}
    moments = [edges._Moments(5, every) for every in (begin, end, first_end, sizes)]
    monkeypatch.setattr(edges, "_edges", lambda *_: edges._Edges(*moments))
    monkeypatch.setattr(edges, "_collective_ns", lambda _: np.full((2, 5), np.nan))
    monkeypatch.setattr(edges, "_all_there", lambda *_: np.full((2, 5), np.nan))
    first, last = edge_passes_ns(SimpleNamespace(), job)[1].T
    known = np.array([shown, shown, shown, shown, False])
    np.testing.assert_array_equal(first, np.where(known, first_answer + late, np.nan))
    np.testing.assert_array_equal(last, np.full(5, last_answer))


def collectives(begin, given, servers, groups):
    """When all ranks of one stage that a collective waits for had their last gradients [ns]."""
    context: Any = SimpleNamespace(topology=SimpleNamespace(servers=np.array(servers)))
    rows = np.arange(len(servers))
    job: Any = SimpleNamespace(
        phases=SimpleNamespace(endpoints=rows, dp_group=np.array(groups)),
        pipelines=SimpleNamespace(stage=np.zeros(rows.size, np.int64)),
    )
    return edges._all_there(context, job, np.array(begin), np.array(given))


def test_ranks_of_a_server_whose_rings_begin_together_wait_for_the_last_of_them():
    """Three servers with two NICs; one rank is late in every second step, its neighbour waits."""
    stream = np.random.default_rng(3)
    given = 100 * np.arange(12.0) + stream.uniform(0, 5, (6, 12))
    given[0, ::2] += 30.0
    begin = np.repeat(given.reshape(3, 2, 12).max(axis=1) + 1, 2, axis=0)
    there = collectives(begin, given, [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    assert begin - there == pytest.approx(np.ones((6, 12)))


def test_collectives_that_begin_before_all_are_there_show_no_pass(monkeypatch):
    """They begin earlier in half of the steps, so what is between them is none in the others."""
    phases = SimpleNamespace(endpoints=np.arange(2), first_of_epoch=[0], dp_group=np.full(2, -1))
    lines = SimpleNamespace(number=np.zeros(2, np.int64), stage=np.arange(2))
    ranks = SimpleNamespace(end=np.array([100.0 * np.arange(1, 9)] * 2))
    job: Any = SimpleNamespace(count=8, phases=phases, pipelines=lines, ranks=ranks)
    steps = 100.0 * np.arange(8)
    moments = edges._Moments(8, {(0, 1): steps + 10, (1, 0): steps + 50})
    monkeypatch.setattr(edges, "_edges", lambda *_: edges._Edges(*[moments] * 4))
    monkeypatch.setattr(edges, "_all_there", lambda *_: np.array([steps + 50] * 2))
    for early, known in ((4, 0), (1, 7)):
        begin = np.array([steps + 60] * 2)
        begin[:, :early] -= 30
        monkeypatch.setattr(edges, "_collective_ns", lambda _, begin=begin: begin)
        back = edge_passes_ns(SimpleNamespace(), job)[0, :, 1]
        assert np.isfinite(back).sum() == known


def test_first_messages_are_those_of_the_last_stage_and_of_others_alike(monkeypatch):
    """The first record that the last stage gets ends after its first answer in step 1."""
    phases = SimpleNamespace(endpoints=np.arange(2))
    lines = SimpleNamespace(number=np.zeros(2, np.int64), stage=np.arange(2))
    job: Any = SimpleNamespace(count=2, phases=phases, pipelines=lines)
    begin = {(0, 1): np.array([10.0, 110.0]), (1, 0): np.array([30.0, 130.0])}
    first_end = {(0, 1): np.array([12.0, 160.0]), (1, 0): np.array([35.0, 135.0])}
    moments = [edges._Moments(2, one) for one in (begin, first_end, first_end)]
    monkeypatch.setattr(edges, "_edges", lambda *_: edges._Edges(*moments, edges._Moments(2, {})))
    sent, got = edges.first_messages_ns(SimpleNamespace(), job)
    np.testing.assert_array_equal(sent, [[10.0, 110.0], [30.0, 130.0]])
    np.testing.assert_array_equal(got, [[np.nan, np.nan], [12.0, 110.0]])
