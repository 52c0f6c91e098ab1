"""Pipelines that show within a single step: stages send several messages before they get answers.

The first stage of a pipeline sends activations ahead, one for each stage that follows, or all of a
step, before the first gradient returns. In exchanges both directions begin at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.classes import TrafficClass, find_components
from llmprism.methods.prism.kinds.characters import character_of
from llmprism.methods.prism.records.connections import Connections, carry_within
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.numerics.arrays import Bools, Codes, Ints
from llmprism.numerics.graph import groups

UNANSWERED = 2  # messages that go one way before any goes the other


@dataclass(frozen=True)
class Passes:
    """Pipelines that a single step shows.

    Attributes
    ----------
    connections : their numbers.
    chains : endpoints of each pipeline.
    answered_ns : when the first gradient was sent.
    """

    connections: Ints
    chains: tuple[frozenset[int], ...]
    answered_ns: int


def passes_of(flows: FlowTable, connections: Connections, endpoints: Codes) -> Passes | None:
    """The pipelines among the ``endpoints``, taking all their records for one step."""
    nodes = len(flows.addresses)
    use = carry_within(connections, endpoints)
    found = [
        one
        for component in find_components(flows, connections, use)
        for one in component.classes
        if sends_ahead(connections, one, np.zeros(len(one.traffic), np.int32), 1, nodes)
    ]
    if not found:
        return None
    numbers = np.concatenate([one.connections for one in found])
    chains = groups(connections.src[numbers], connections.dst[numbers], nodes)
    answered = min(_first_answer_ns(one.traffic) for one in found)
    return Passes(numbers, chains, answered)


def _first_answer_ns(traffic: Traffic) -> int:
    """When a couple first moves the other way [ns]."""
    begins = _first_ns(traffic, np.ones(len(traffic), np.bool_)).reshape(-1, 2)
    return int(begins.max(axis=1).min())


def sends_ahead(
    connections: Connections, one: TrafficClass, step: Codes, count: int, nodes: int
) -> bool:
    """Whether a class is of a pipeline whose first stage sends ahead in each of ``count`` steps.

    ``step`` has the step of each record, ``nodes`` is the number of endpoints of all traffic.
    """
    if not one.two_way or not character_of(connections, one, step, count, nodes).is_pipeline:
        return False
    ahead = np.array([_unanswered(one.traffic, step == i) for i in range(count)])
    return bool((ahead.min(axis=0) >= UNANSWERED).any())


def _unanswered(traffic: Traffic, chosen: Bools) -> Ints:
    """How many of the ``chosen`` records of each couple go one way before one goes the other."""
    first_ns = _first_ns(traffic, chosen)
    other_ns = first_ns[(traffic.couple * 2 + traffic.forth) ^ 1]
    ahead = chosen & (traffic.start_ns < other_ns)
    return np.bincount(traffic.couple[ahead], minlength=first_ns.size // 2)


def _first_ns(traffic: Traffic, chosen: Bools) -> Ints:
    """First start of the ``chosen`` records of each direction of each couple [ns]."""
    way = traffic.couple * 2 + traffic.forth
    first_ns = np.full(2 * (int(traffic.couple.max()) + 1), np.iinfo(np.int64).max)
    np.minimum.at(first_ns, way[chosen], traffic.start_ns[chosen])
    return first_ns
