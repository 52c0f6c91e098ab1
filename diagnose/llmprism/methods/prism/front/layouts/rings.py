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
from llmprism.methods.prism.front.parameters import (
    EXACT_BYTES,
    FREQUENT_SIZES,
    HIDDEN_RANKS,
    PRIOR_ALONE,
    TENSOR_DOUBLING,
    TENSOR_SIZES,
    UNUSUAL_RANKS,
    WHOLE_RECORDS,
    WHOLE_STEP,
)
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Codes, Floats


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
    widest = _most_in_server(endpoints, topology)
    for number, prior in ranks.items():
        for tensor in TENSOR_SIZES:
            if number % tensor or number // tensor < 2 or tensor > widest:
                continue
            members = number // tensor
            score = prior - TENSOR_DOUBLING * np.log2(tensor) + _prior(members)
            score += _evidence(members, totals, WHOLE_STEP)
            score += _evidence(members, messages, WHOLE_RECORDS)
            scores[members, tensor] = score
    if not scores:
        return Replicas(max(2, endpoints.size), 1, 0.5)
    best = max(scores, key=lambda key: scores[key])
    values = np.array(list(scores.values()))
    weight = np.exp(values - values.max())
    same = np.array([members == best[0] for members, _ in scores])
    posterior = float(weight[same].sum() / weight.sum())
    shown = _odd_part(best[0] - 1) > 1 and len(scores) > 1
    return Replicas(*best, posterior if shown else min(posterior, PRIOR_ALONE))


def replicas_of_stages(cut: list[CutLane], shown: int) -> tuple[int, float]:
    """Replicas of a pipeline of which ``shown`` are seen between servers, and their posterior.

    Replicas whose stages share servers are hidden, but they are members of the rings.
    """
    totals, messages = _usual_totals(cut), _frequent_messages(cut)
    if not totals:
        return shown, 1.0
    numbers = list(range(shown, 2 * shown + 1))
    score = np.array(
        [
            _prior(n)
            - (n > shown) * (UNUSUAL_RANKS + HIDDEN_RANKS * (n / shown - 1))
            + _evidence(n, totals, WHOLE_STEP)
            + _evidence(n, messages, WHOLE_RECORDS)
            for n in numbers
            if n > 1
        ]
    )
    weight = np.exp(score - score.max())
    best = int(np.argmax(weight))
    return [n for n in numbers if n > 1][best], float(weight[best] / weight.sum())


def _most_in_server(endpoints: Codes, topology: Topology) -> int:
    """GPUs of the largest server of a job."""
    shared = np.median([len(topology.endpoints[e].gpus or (0,)) for e in endpoints])
    rooms = [np.sum(topology.servers == s) for s in np.unique(topology.servers[endpoints])]
    return int(max(rooms) * max(1, shared))


def _rank_numbers(endpoints: Codes, topology: Topology) -> dict[int, float]:
    """Log prior of each number of ranks that the NICs and servers of a job allow."""
    servers, seen = np.unique(topology.servers[endpoints], return_counts=True)
    shared = max(1, int(np.median([len(topology.endpoints[e].gpus or (0,)) for e in endpoints])))
    room = np.array([np.sum(topology.servers == s) for s in servers]) * shared
    fewest = int(seen.min()) * shared
    numbers: dict[int, float] = {}
    for number in range(endpoints.size, int(room.sum()) + 1):
        numbers[number] = -UNUSUAL_RANKS - HIDDEN_RANKS * (number / (endpoints.size * shared) - 1)
    most = int(room.max())
    for number in {endpoints.size, endpoints.size * shared, most * (servers.size - 1) + fewest}:
        if number <= room.sum():
            numbers[int(number)] = 0.0
    return numbers


def _prior(members: int) -> float:
    """Log prior of a number of members: people choose products of small factors."""
    largest = max(
        factor for factor in range(1, members + 1) if members % factor == 0 and _prime(factor)
    )
    return -float(np.log(max(largest / 3, 1.0)))


def _prime(number: int) -> bool:
    return all(number % factor for factor in range(2, int(number**0.5) + 1))


def _usual_totals(cut: list[CutLane]) -> list[float]:
    """The usual bytes of a step: the largest frequent ones, since lost records only take away."""
    usual = _usual(np.concatenate([c.bytes[c.active] for c in cut]) if cut else np.zeros(0))
    return [max(usual)] if usual else []


def _frequent_messages(cut: list[CutLane]) -> list[float]:
    """The sizes that records have most often."""
    return _usual(np.concatenate([c.lane.size for c in cut]) if cut else np.zeros(0))


def _usual(sizes: Floats) -> list[float]:
    """The most frequent sizes, each at least a third as frequent as the first."""
    values, often = np.unique(sizes, return_counts=True)
    top = np.argsort(-often, kind="stable")[:FREQUENT_SIZES]
    return [float(values[k]) for k in top if often[k] > 1 and 3 * often[k] >= often[top[0]]]


def _odd_part(number: int) -> int:
    """A positive number without its factors 2 and 3."""
    for factor in (2, 3):
        while number % factor == 0:
            number //= factor
    return number


def _evidence(members: int, sizes: list[float], whole: float) -> float:
    """Log likelihood ratio of sizes, under rings of ``members`` against any other number."""
    odd = _odd_part(members - 1)
    ratio = 0.0
    for size in sizes:
        hit = EXACT_BYTES + (1 - EXACT_BYTES) / odd
        ratio += np.log(hit * odd) if size % odd == 0 else np.log((1 - hit) / (1 - 1 / odd))
    return float(np.log(whole * np.exp(ratio) + 1 - whole))
