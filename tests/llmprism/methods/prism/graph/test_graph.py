"""A graph with known durations: parents, durations and the critical path are found."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.graph.durations import StepGraph, with_durations
from llmprism.methods.prism.graph.nodes import Communicator, Nodes
from llmprism.methods.prism.graph.path import times_on_path
from llmprism.methods.prism.graph.rendezvous import rendezvous_of
from llmprism.methods.prism.normal import Reference

STEPS = 12
PASS, WIRE, REDUCE = 10.0, 1.0, 5.0
LONGER = np.random.default_rng(0).uniform(0.9, 1.1, (3, STEPS))


def pipeline(slow: np.ndarray) -> tuple[Nodes, np.ndarray]:
    """Two ranks: rank 0 sends to rank 1, which works; both reduce. Rank r takes slow[r] passes.

    Returns the nodes, and when each step ends.
    """
    begin = np.zeros(STEPS)
    end = 0.0
    sent, got, ready0, ready1, done = (np.zeros(STEPS) for _ in range(5))
    for step in range(STEPS):
        begin[step] = end
        sent[step] = end + PASS * slow[0, step]
        got[step] = sent[step] + WIRE
        ready0[step] = sent[step] + PASS * slow[2, step]
        ready1[step] = got[step] + PASS * slow[1, step]
        end = done[step] = max(ready0[step], ready1[step]) + REDUCE
    none = np.full(STEPS, np.nan)
    both = (Communicator("pp", np.array([0]), 1.0), Communicator("dp", np.array([1, 2]), 1.0))
    nodes = Nodes(
        both,
        np.array([0, 1]),
        np.array([sent, np.maximum(ready0, ready1)]),
        np.array([got, done]),
        np.array([0, 0, 1, 1]),
        np.array([0, 1, 0, 1]),
        np.array([sent, none, ready0, ready1]),
        np.array([none, got, done, done]),
    )
    return nodes, done


def graph_of(slow: np.ndarray) -> tuple[StepGraph, np.ndarray]:
    nodes, done = pipeline(slow)
    return with_durations(nodes, np.arange(2), np.array([0]), 0.0), done


def test_durations_of_computation_are_those_of_the_ranks() -> None:
    graph, _ = graph_of(LONGER)
    later = slice(1, None)
    assert graph.compute[0, later] == pytest.approx(PASS * LONGER[0, later])
    assert graph.compute[3, later] == pytest.approx(PASS * LONGER[1, later])
    assert graph.transfer[0] == pytest.approx(WIRE)
    assert graph.transfer[1] == pytest.approx(REDUCE)


def test_waiting_is_no_computation() -> None:
    """Rank 0 is ready long before rank 1; what it does meanwhile is not longer for it."""
    slow = LONGER.copy()
    slow[1, 5:8] *= 3
    graph, _ = graph_of(slow)
    assert graph.compute[2, 5:8] == pytest.approx(PASS * slow[2, 5:8])


@pytest.mark.parametrize("rank", [0, 1])
def test_the_critical_path_fills_the_step(rank: int) -> None:
    slow = LONGER.copy()
    slow[rank, 4:7] += 2.0
    graph, done = graph_of(slow)
    reference = Reference(np.zeros(STEPS, np.int64), np.ones(STEPS, np.bool_))
    normal = (reference.usual(graph.compute), reference.usual(graph.transfer))
    times = times_on_path(graph, normal, 2, rendezvous_of(graph.nodes, np.arange(2), 0.0))
    whole = times.compute.sum(axis=0) + times.transfer.sum(axis=0)
    assert whole[1:] == pytest.approx(np.diff(done))
