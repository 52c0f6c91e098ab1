"""How many ranks of a ring are in one server, from the sizes of its messages.

A ring of n members divides what it reduces or gathers into n equal blocks, and each hop passes
n - 1 of them on (an all-reduce: twice). So the bytes of every message, and of every step, are a
multiple of n - 1. Several rings of one group (one for each NIC, or each queue pair) share its
bytes, and each of them passes through all of the members. The network shows one hop of a ring for
each server. If a server has r members, n is r times the number of those hops.

This distinguishes replicas in one server from a tensor-parallel group, which has one ring for each
rank, all of them with r = 1. Divisibility may be a coincidence: all sizes of a model may have a
small factor in common, since its width has it. The more sizes there are, and the larger n - 1, the
less likely that is. Activations of a pipeline show which factors the width has. A number of ranks
is as likely as the observed divisors are under it.

The gradients of experts are reduced by fewer ranks than all others: those with the same experts.
Then there are sizes of both kinds. Each of them is a multiple of one of two numbers, but no number
divides all of them.

Nothing is concluded from records that do not repeat (sampled ones, or those of a library that adds
headers to messages), or if the sizes fit no number of ranks.

References: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009, for the volume
of a ring. Widths of models: published configurations of GPT-3, OPT, Llama, BLOOM, PaLM, Mixtral,
DeepSeek-V3 and the Megatron papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.sizes import AGREE, cells
from llmprism.methods.prism.layout.replicas import usual_rings
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Ints

WHOLE = 0.8  # share of all sizes that a divisor must divide: some may be pieces of messages
STEADY = 0.15  # by which the number of messages of a size may differ between steps: lost records
INDEPENDENT = 3  # sizes of one model that may agree by chance; others often have their factors,
# and so has twice a size: gradients in single precision, parameters in half precision
IN_WIDTHS = {2: 0.95, 3: 0.35, 5: 0.15, 7: 0.08}
"""Share of widths of published models that have a prime factor. Blocks may be odd: rounded up."""
RARE = 0.03  # ... that have one of the other prime factors, each; also one that activations lack
AGAIN = 0.3  # ... that have it once more, of those that have it
IN_VOCABULARIES = 0.5  # probability that embeddings have a factor 3 or 5: 32,000, 50,304, 100,000
RARELY, OFTEN = 0.02, 0.5  # coincidences that are accepted: always, and if nothing else fits
SEVERAL = 2  # sizes of dense parameters, and of experts
NEARLY = 0.9  # probability that the width of a model has a factor that all its activations have
USUAL = 3.0  # prior weight of a server that is one group, and of one with replicas only

NONE = np.empty(0, np.int64)


class RingShare(NamedTuple):
    """What the sizes of messages show about one server and stage.

    Attributes
    ----------
    ranks : ranks of each ring in the server.
    rings : rings that pass through the server, one for each NIC.
    confidence : of ``ranks``, in [0, 1].
    experts : ranks that have different experts, 1 if all have the same.
    """

    ranks: int
    rings: int
    confidence: float
    experts: int = 1


def find_ring_share(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> RingShare | None:
    """Ranks of each data-parallel ring in every server; None if the sizes do not show it."""
    shape = _shape(topology, phases, pipelines)
    if shape is None:
        return None
    hops, rings = shape
    messages, volumes = _sizes(connections, phases, "dp")
    if not messages.size + volumes.size:
        return None
    sizes = np.union1d(messages, volumes)
    activations = _sizes(connections, phases, "pp")[0]
    return (
        _with_experts(messages, volumes, hops, rings, RARELY)
        or most_likely(sizes, hops, rings, activations)
        or _with_experts(messages, volumes, hops, rings, OFTEN)
    )


def most_likely(sizes: Ints, hops: int, rings: int, activations: Ints = NONE) -> RingShare | None:
    """The number of ranks in a server that explains the divisors of ``sizes`` best.

    Parameters
    ----------
    sizes : distinct sizes of messages [bytes].
    hops : servers that a ring passes through.
    rings : rings that pass through the same server, over as many NICs.
    activations : sizes of messages that are a multiple of the model's width [bytes], if known.

    Examples
    --------
    Two servers of two GPUs: the blocks of four replicas, three of which each hop passes on.

    >>> most_likely(np.array([3 * 4096, 3 * 1300, 3 * 77]), 2, 2).ranks
    2
    >>> most_likely(np.array([4096, 1300, 77]), 2, 2).ranks
    1
    """
    candidates = [ranks for ranks in range(1, rings + 1) if rings % ranks == 0]
    passed = [hops * ranks - 1 for ranks in candidates]
    divides = [_divides(sizes, count) for count in passed]
    if not any(divides):
        return None
    seen = list(zip(passed, divides, strict=True))
    chance = partial(_by_chance, sizes=min(INDEPENDENT, _unrelated(sizes)), activations=activations)
    weights = [
        (USUAL if ranks in (1, rings) else 1.0) * _likelihood(own, seen, chance)
        for ranks, own in zip(candidates, passed, strict=True)
    ]
    best = int(np.argmax(weights))
    return RingShare(candidates[best], rings, weights[best] / sum(weights))


def _with_experts(
    messages: Ints, volumes: Ints, hops: int, rings: int, by_chance: float
) -> RingShare | None:
    """The numbers of ranks that reduce dense parameters and experts, if two explain all sizes.

    A factor of the model's width is in all sizes, so one that some have is hardly a coincidence.
    Pieces of messages lack it, too, but their sum has it: the volume of a step. ``by_chance`` is
    the largest probability of a coincidence that is accepted.
    """
    for ranks in range(rings, 1, -1):
        members = hops * ranks
        dense = messages % (members - 1) == 0
        chance = _in_some_by_chance(members - 1, _unrelated(messages[dense]), _unrelated(messages))
        reduced = (volumes % (members - 1) == 0).all()
        few = min(dense.sum(), (~dense).sum()) < SEVERAL
        if rings % ranks or reduced or few or chance > by_chance:
            continue
        for experts in range(2, members // 2 + 1):
            same = members // experts
            if members % experts == 0 and (messages[~dense] % (same - 1) == 0).all():
                return RingShare(ranks, rings, 1 - chance, experts)
    return None


def _in_some_by_chance(divisor: int, sizes: int, of: int) -> float:
    """How likely it is that ``divisor`` divides so many sizes ``of`` one model, and not others."""
    chance, rest = 1.0, 1
    for prime, power in _factors(divisor):
        if prime in (3, 5):
            chance *= IN_VOCABULARIES
        else:
            rest *= prime**power
    return chance * min(1.0, math.comb(of, sizes) * float(rest) ** -sizes)


def _unrelated(sizes: Ints) -> int:
    """Number of sizes that are not a small multiple of others, or as many thirds of them."""
    rest = sizes.copy()
    for factor in (2, 3):
        while (rest % factor == 0).any():
            rest = np.where(rest % factor == 0, rest // factor, rest)
    return int(np.unique(rest).size)


def _likelihood(
    own: int, seen: Sequence[tuple[int, bool]], by_chance: Callable[[int], float]
) -> float:
    """How likely it is that numbers divide all sizes, or not, as ``seen``, if ``own`` does."""
    likelihood = 1.0
    for other, divides in seen:
        chance = by_chance(other // math.gcd(own, other))
        likelihood *= chance if divides else 1 - chance
    return likelihood


def _by_chance(divisor: int, sizes: int, activations: Ints) -> float:
    """How likely it is that ``divisor`` divides as many ``sizes`` of one model."""
    chance = 1.0
    for prime, power in _factors(divisor):
        width = _in_width(prime, power, activations)
        chance *= width + (1 - width) * float(prime) ** (-power * sizes)
    return chance


def _in_width(prime: int, power: int, activations: Ints) -> float:
    """Probability that the width of a model is a multiple of a power of ``prime``."""
    if prime > 2 and activations.size:
        return NEARLY if (activations % prime**power == 0).all() else RARE
    return IN_WIDTHS.get(prime, RARE) * (1.0 if prime == 2 else AGAIN ** (power - 1))


def _factors(number: int) -> Iterator[tuple[int, int]]:
    """Prime factors and their powers."""
    prime = 2
    while number > 1:
        power = 0
        while number % prime == 0:
            number //= prime
            power += 1
        if power:
            yield prime, power
        prime = prime + 1 if prime * prime <= number else max(number, prime + 1)


def _divides(sizes: Ints, divisor: int) -> bool:
    return bool((sizes % divisor == 0).mean() >= WHOLE)


def _shape(topology: Topology, phases: Phases, pipelines: Pipelines) -> tuple[int, int] | None:
    """Servers of each data-parallel ring, and rings in a server and stage; None if they differ.

    Every group has one NIC in each of its servers.
    """
    own = np.flatnonzero(phases.dp_group >= 0)
    server = topology.servers[phases.endpoints[own]]
    places = np.column_stack((phases.dp_group[own], server))
    hops = np.unique(np.unique(phases.dp_group[own], return_counts=True)[1])
    if hops.size != 1 or hops[0] < 2 or np.unique(places, axis=0).shape[0] < own.size:
        return None
    return int(hops[0]), usual_rings(topology, phases, pipelines)


def _sizes(connections: Connections, phases: Phases, kind: str) -> tuple[Ints, Ints]:
    """Distinct sizes of whole messages of a kind, and usual volumes of a step if there are any.

    Messages of a size occur about as often in every step. Pieces, which silences within a transfer
    leave, do not.
    """
    messages: list[int] = []
    volumes: list[int] = []
    for one in phases.classes:
        parts = [cell[2] for cell in cells(connections, one.one, one.step, phases.count)]
        if one.kind != kind or not parts:
            continue
        value, place = np.unique(np.concatenate(parts), return_inverse=True)
        part = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        often = np.bincount(part * value.size + place, minlength=len(parts) * value.size)
        often = often.reshape(-1, value.size)
        usual = np.median(often, axis=0)
        steady = np.abs(often - usual) <= STEADY * usual
        messages += value[(usual >= 1) & (steady.mean(axis=0) >= AGREE)].tolist()
        volume, times = np.unique([part.sum() for part in parts], return_counts=True)
        volumes += volume[times >= AGREE * len(parts)].tolist()
    return np.unique(np.array(messages, np.int64)), np.unique(np.array(volumes, np.int64))
