"""How many ranks of a ring are in one server, from the sizes of its messages.

A ring of n members divides what it reduces or gathers into n equal blocks, and each hop passes
n - 1 of them on (an all-reduce: twice). So the bytes of every message, and of every step, are a
multiple of n - 1. Several rings of one group (one for each NIC, or each queue pair) share its
bytes, and each of them passes through all of the members. The network shows one hop of a ring for
each server. If a server has r members, n is r times the number of those hops. Where servers hold
different numbers of ranks, NVLink joins those that are in no ring of their own, and n is what all
servers hold, over the tensor-parallel ranks. Ranks that a ring reaches by NVLink only have a GPU
that sends nothing, so n may be any number for which the servers have GPUs.

This distinguishes replicas in one server from a tensor-parallel group, which has one ring for each
rank, all of them with r = 1. Divisibility may be a coincidence: all sizes of a model may have a
small factor in common, since its width has it. The more sizes there are, and the larger n - 1, the
less likely that is. Widths of models are nearly always even, often multiples of 3 or 5, and rarely
of larger primes; activations of a pipeline show which factors the width has. Other factors of a
size are independent: a prime p divides one in p of them. The length of a ring is as likely as the
powers of primes that divide all sizes are under it.

Nothing is concluded from records that do not repeat (sampled ones, or those of a library that adds
headers to messages), or if the sizes fit no number of ranks.

Reference: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009, for the volume
of a ring. Widths: published configurations of GPT-3, OPT, Llama, BLOOM, PaLM, Mixtral, DeepSeek-V3
and the Megatron papers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.sizes import cells
from llmprism.methods.prism.layout.replicas import usual_rings
from llmprism.methods.prism.parameters import HALF, MOSTLY, SMALL
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Ints

WHOLE = 0.8  # share of all sizes that a divisor must divide: some may be pieces of messages
INDEPENDENT = 3  # sizes of one model that may agree by chance; others often have their factors,
# and so has twice a size: gradients in single precision, parameters in half precision
USUAL, HIDDEN = 3.0, 9.0  # prior weights: of a server that is one group, or has replicas only,
# and of ranks out of sight if GPUs of these servers send nothing, since jobs mostly fill servers

NONE = np.empty(0, np.int64)
IN_WIDTHS = {2: 0.95, 3: 0.35, 5: 0.15, 7: 0.08}
"""Share of widths of published models that have a prime factor. Blocks may be odd: rounded up."""
RARE = 0.03  # ... that have one of the other prime factors, each; also one that activations lack
AGAIN = 0.3  # ... that have it once more, of those that have it
INHERITED = 0.9  # probability that the width of a model has a factor that all its activations have


class RingShare(NamedTuple):
    """What the sizes of messages show about one server and stage.

    Attributes
    ----------
    ranks : rings of each group that pass through the server; as many of its ranks are in sight.
    rings : rings that pass through the server, one for each NIC.
    confidence : of ``ranks`` and ``members``, in [0, 1].
    members : of each ring, also those that only NVLink reaches.
    """

    ranks: int
    rings: int
    confidence: float
    members: int


def find_ring_share(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> RingShare | None:
    """Ranks of each data-parallel ring in every server; None if the sizes do not show it."""
    shape = _shape(topology, phases, pipelines)
    if shape is None or connections.sample_bytes > 0:
        return None
    messages, volumes = _sizes(connections, phases, "dp")
    if not messages.size + volumes.size:
        return None
    activations = _sizes(connections, phases, "pp")[0]
    gpus = shape[0] + _idle_gpus(topology, phases) if pipelines.length == 1 else 0
    return most_likely(np.union1d(messages, volumes), *shape, activations, gpus)


def most_likely(
    sizes: Ints, members: int, rings: int, activations: Ints = NONE, gpus: int = 0
) -> RingShare | None:
    """The length of a ring that explains the divisors of ``sizes`` best.

    Parameters
    ----------
    sizes : distinct sizes of messages [bytes].
    members : ranks in sight of all servers that the rings pass through.
    rings : rings that pass through the same servers, each over a NIC of its own.
    activations : sizes of messages that are a multiple of the model's width [bytes], if known.
    gpus : of these servers; those beyond ``members`` may hold ranks that only NVLink reaches.

    Examples
    --------
    Two servers of two GPUs: the blocks of four replicas, three of which each hop passes on.

    >>> most_likely(np.array([3 * 4096, 3 * 1300, 3 * 77]), 4, 2).ranks
    2
    >>> most_likely(np.array([4096, 1300, 77]), 4, 2).ranks
    1
    """
    prior = _prior(members, rings, gpus)
    powers = powers_of(sizes, max([length for length, _ in prior], default=2) - 1, WHOLE)
    independent = min(INDEPENDENT, unrelated(sizes))
    weights = {
        (length, ranks): weight * likelihood(length - 1, powers, independent, activations)
        for (length, ranks), weight in prior.items()
    }
    total = sum(weights.values())
    if not total:
        return None
    length, ranks = max(weights, key=lambda key: weights[key])
    return RingShare(ranks, rings, weights[length, ranks] / total, length)


def _prior(members: int, rings: int, gpus: int) -> dict[tuple[int, int], float]:
    """Weights of the lengths that rings may have, each with its rings of one group in a server.

    Of the lengths with ranks out of sight, each has the fewest that the rings allow. Replicas are
    mostly counted by powers of two, then of three.
    """
    prior = {
        (members * ranks // rings, ranks): USUAL if ranks in (1, rings) else 1.0
        for ranks in _divisions(members, rings)
    }
    fitting = [ranks for ranks in range(rings, 0, -1) if rings % ranks == 0]
    longer = {}
    for length in range(2, gpus + 1):
        own = [ranks for ranks in fitting if members < length * rings // ranks <= gpus]
        if own:
            longer[length, own[0]] = 1 / max(prime for prime, _ in factors(length))
    total = sum(longer.values())
    return prior | {key: HIDDEN * weight / total for key, weight in longer.items()}


def _divisions(members: int, rings: int) -> list[int]:
    """Ranks of a ring in each server, if its ``rings`` are of as many ranks of a tensor-parallel
    group, or of fewer. These divide all ``members``, also those that are in no ring.
    """
    return [ranks for ranks in range(1, rings + 1) if rings % ranks == members * ranks % rings == 0]


def _shape(topology: Topology, phases: Phases, pipelines: Pipelines) -> tuple[int, int] | None:
    """Ranks of the servers that rings of a stage share, and how many rings; None if they differ.

    Every group has one NIC in each of its servers.
    """
    own = np.flatnonzero(phases.dp_group >= 0)
    server = topology.servers[phases.endpoints]
    places = np.column_stack((phases.dp_group[own], server[own]))
    hops = np.unique(np.unique(phases.dp_group[own], return_counts=True)[1])
    if hops.size != 1 or hops[0] < 2 or np.unique(places, axis=0).shape[0] < own.size:
        return None
    usual = int(hops[0]), usual_rings(topology, phases, pipelines)
    shapes = [
        _shape_of_stage(phases.dp_group, server, pipelines.stage == stage, *usual)
        for stage in np.unique(pipelines.stage[own]).tolist()
    ]
    return shapes[0] if len({*shapes}) == 1 else (math.prod(usual), usual[1])


def _idle_gpus(topology: Topology, phases: Phases) -> int:
    """GPUs of the job's servers at NICs that are none of the job's."""
    inside = np.isin(topology.servers, topology.servers[phases.endpoints])
    inside[phases.endpoints] = False
    return sum(gpus_at(topology, end) for end in np.flatnonzero(inside).tolist())


def gpus_at(topology: Topology, end: int) -> int:
    """GPUs that share a NIC; one where the topology does not say."""
    return len(topology.endpoints[end].gpus or (0,))


def _shape_of_stage(
    group: Ints, server: Codes, own: Bools, hops: int, rings: int
) -> tuple[int, int]:
    """Ranks and rings of a stage, whose servers may hold different numbers of its ``own`` ranks."""
    ringed = own & (group >= 0)
    seen = np.unique(group[ringed]).size
    if np.unique(server[ringed]).size != hops or own.sum() in (hops * rings, hops * seen):
        return hops * rings, rings
    return int(own.sum()), seen


def _sizes(connections: Connections, phases: Phases, kind: str) -> tuple[Ints, Ints]:
    """Distinct sizes of whole messages of a kind, and usual volumes of a step if there are any.

    Messages of a size occur about as often in every step. Pieces, which silences within a transfer
    leave, do not. Some sizes of sampled records do by chance, but these carry few of the bytes, and
    the volumes of steps differ.
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
        steady = np.abs(often - usual) <= SMALL * usual
        whole = (usual >= 1) & (steady.mean(axis=0) >= MOSTLY)
        moved = often.sum(axis=0) * value
        volume, times = np.unique([part.sum() for part in parts], return_counts=True)
        steps = volume[times >= MOSTLY * len(parts)].tolist()
        if steps or moved[whole].sum() >= HALF * moved.sum():
            messages += value[whole].tolist()
        volumes += steps
    return np.unique(np.array(messages, np.int64)), np.unique(np.array(volumes, np.int64))


def powers_of(sizes: Ints, largest: int, share: float) -> dict[int, tuple[int, bool]]:
    """The power of each prime that divides a ``share`` of ``sizes``, as far as ``largest`` reaches.

    With each power comes whether a higher one would exceed ``largest``, so that nobody asked.
    """
    found: dict[int, tuple[int, bool]] = {}
    for prime in range(2, largest + 1):
        if any(prime % lower == 0 for lower in found):
            continue
        power = 0
        while prime ** (power + 1) <= largest and _divides(sizes, prime ** (power + 1), share):
            power += 1
        found[prime] = power, prime ** (power + 1) > largest
    return found


def _divides(sizes: Ints, divisor: int, share: float) -> bool:
    return bool(sizes.size) and bool((sizes % divisor == 0).mean() >= share)


def likelihood(
    passed: int, powers: Mapping[int, tuple[int, bool]], sizes: int, activations: Ints
) -> float:
    """How likely the ``powers`` of primes in ``sizes`` are if each is a multiple of ``passed``."""
    found, given = 1.0, dict(factors(passed))
    for prime, (power, is_last) in powers.items():
        own = given.get(prime, 0)
        if own > power:
            return 0.0
        more = 0.0 if is_last else _by_chance(prime, power - own + 1, sizes, activations)
        found *= _by_chance(prime, power - own, sizes, activations) - more
    return found


def _by_chance(prime: int, power: int, sizes: int, activations: Ints) -> float:
    """How likely it is that a power of ``prime`` divides as many ``sizes`` of one model."""
    if power == 0:
        return 1.0
    width = _in_width(prime, power, activations)
    return width + (1 - width) * float(prime) ** (-power * sizes)


def _in_width(prime: int, power: int, activations: Ints) -> float:
    """Probability that the width of a model is a multiple of a power of ``prime``."""
    if prime > 2 and activations.size:
        return INHERITED if (activations % prime**power == 0).all() else RARE
    return IN_WIDTHS.get(prime, RARE) * (1.0 if prime == 2 else AGAIN ** (power - 1))


def unrelated(sizes: Ints) -> int:
    """Number of sizes that are not a small multiple of others, or as many thirds of them."""
    rest = sizes.copy()
    for factor in (2, 3):
        while (rest % factor == 0).any():
            rest = np.where(rest % factor == 0, rest // factor, rest)
    return int(np.unique(rest).size)


def factors(number: int) -> Iterator[tuple[int, int]]:
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
