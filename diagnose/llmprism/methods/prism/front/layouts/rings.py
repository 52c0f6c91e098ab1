"""Replicas of a job without pipelines: members of its rings, by bytes and by places.

A ring of n members sends (n - 1) equal pieces once or twice, so n - 1 divides the bytes of a step.
Factors 2 and 3 are no evidence: layers and heads bring them. As many rings cross between servers as
the server with fewest ranks has; so either all servers have as many ranks as NICs that send, or
all but one are full. Each hypothesis is a number of members and a size of tensor groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Codes

TENSOR_SIZES = (1, 2, 4, 8)
EXACT_TOTAL = 0.9
"""Chance that the usual bytes of a step are those of whole pieces: records are lost or sent twice."""
EXACT_MESSAGE = 0.5
"""The same of the most frequent records: they may hold any part of a piece."""
UNUSUAL = 3.0
"""Log odds against ranks that are neither as many as NICs nor fill all servers but one."""
PREFERRED = 0.5
"""Log odds against each doubling of a tensor group."""


@dataclass(frozen=True)
class Replicas:
    """A hypothesis about a job without pipelines.

    Attributes
    ----------
    members : ranks of a DP group.
    tensor : ranks of a tensor group.
    posterior : probability of ``members``.
    """

    members: int
    tensor: int
    posterior: float


def find_replicas(cut: list[CutLane], endpoints: Codes, topology: Topology) -> Replicas:
    """The most probable members of the rings of a job."""
    ranks = _rank_numbers(endpoints, topology)
    totals, messages = _usual_totals(cut), _frequent_messages(cut)
    scores: dict[tuple[int, int], float] = {}
    for number, prior in ranks.items():
        for tensor in TENSOR_SIZES:
            if number % tensor or number // tensor < 2:
                continue
            members = number // tensor
            score = prior - PREFERRED * np.log2(tensor)
            score += sum(_evidence(members, v, EXACT_TOTAL) for v in totals)
            score += sum(max(0.0, _evidence(members, v, EXACT_MESSAGE)) for v in messages)
            scores[members, tensor] = score
    if not scores:
        return Replicas(max(2, endpoints.size), 1, 0.5)
    best = max(scores, key=lambda key: scores[key])
    values = np.array(list(scores.values()))
    weight = np.exp(values - values.max())
    same = np.array([members == best[0] for members, _ in scores])
    return Replicas(*best, float(weight[same].sum() / weight.sum()))


def _rank_numbers(endpoints: Codes, topology: Topology) -> dict[int, float]:
    """Log prior of each number of ranks that the NICs and servers of a job allow."""
    servers, seen = np.unique(topology.servers[endpoints], return_counts=True)
    shared = max(1, int(np.median([len(topology.endpoints[e].gpus or (0,)) for e in endpoints])))
    room = np.array([np.sum(topology.servers == s) for s in servers]) * shared
    fewest = int(seen.min()) * shared
    numbers: dict[int, float] = {}
    for number in range(endpoints.size, int(room.sum()) + 1):
        numbers[number] = -UNUSUAL
    most = int(room.max())
    for number in {endpoints.size, endpoints.size * shared, most * (servers.size - 1) + fewest}:
        if number <= room.sum():
            numbers[int(number)] = 0.0
    return numbers


def _usual_totals(cut: list[CutLane]) -> list[float]:
    """The bytes of a step that most lanes have most often."""
    every = np.concatenate([c.bytes[c.active] for c in cut]) if cut else np.zeros(0)
    values, often = np.unique(every, return_counts=True)
    top = np.argsort(-often, kind="stable")[:1]
    return [float(v) for v in values[top[often[top] > 1]]]


def _frequent_messages(cut: list[CutLane]) -> list[float]:
    """The sizes that records have most often."""
    every = np.concatenate([c.lane.size for c in cut]) if cut else np.zeros(0)
    values, often = np.unique(every, return_counts=True)
    top = np.argsort(-often, kind="stable")[:1]
    return [float(v) for v in values[top[often[top] > 1]]]


def _evidence(members: int, value: float, exact: float) -> float:
    """Log likelihood ratio of bytes, under rings of ``members`` against any other number."""
    odd = members - 1
    while odd % 2 == 0 and odd:
        odd //= 2
    while odd % 3 == 0 and odd:
        odd //= 3
    divides = value % odd == 0
    return float(np.log(exact + (1 - exact) / odd) - np.log(1 / odd)) if divides else float(
        np.log(1 - exact)
    )
