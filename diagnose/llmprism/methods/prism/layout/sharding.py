"""What data-parallel ranks hold a part of only: optimizer states, gradients, parameters.

Every collective moves its bytes in messages of one size, and the sizes of a step differ, since
layers, embeddings and buckets do. How often each size occurs shows what is reduced and gathered:

- An all-reduce (``none``) sends each size once.
- With sharded states, gradients are reduced and parameters gathered. Gradients in single precision
  have twice the bytes of parameters in half precision, so for each gathered size there is a reduced
  one of its double. In a step there are as many of both (``zero1``), or several times as many, once
  for each micro-batch (``zero2``), or half as many, because sharded parameters are gathered in the
  forward pass and again in the backward pass (``zero3``).
- What is sharded inside groups of replicas is gathered there, and gradients are reduced across
  these groups (``hybrid``). Without a pipeline, only sharded parameters have this name: steps then
  begin with gathers.

Without accumulation, sharded gradients (``zero2``) move as sharded states do. They differ only
where there are several micro-batches: in a pipeline, or if nothing moves for longer than two
backward passes take. The answer is ``unknown`` where gradients have as many bytes as parameters,
where records hold several collectives, or where NVLink may hide what happens inside a server.

An all-reduce uses one direction of a ring, or moves as many bytes at the same time in both. Some
libraries reduce in one direction and gather in the other one (gloo). Then records of any size show
what is sharded, by their times: parameters are gathered from the begin of the forward pass, until
the last layer has them in the backward pass; gradients are reduced all through the backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.classes.sizes import EXACT, Cell, cells, distinct, fitting
from llmprism.methods.prism.kinds.characters import extents
from llmprism.methods.prism.parameters import FEWEST, MOSTLY, NEARLY, SMALL
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.graph import components
from llmprism.numerics.missing import finite_median, nanmedian

UNKNOWN = "unknown"
SHARDED = ("zero1", "zero2", "zero3")
RESTS = 0.2  # of a step: sharded parameters move all through it, gradients of an all-reduce do not
PASSES = 2.0  # ... and accumulation leaves the network silent for longer than gradients move
UPDATES = (1 / 2, 2 / 3, 3 / 4, 4 / 5, 6 / 7)  # share of bytes before an update, if gathers follow
NEAR = 0.005  # of the bytes of a step


def find_sharding(
    topology: Topology, connections: Connections, phases: Phases, micro_batches: int
) -> str:
    """Name the sharding of a job."""
    own = [one for one in phases.classes if one.kind == "dp"]
    if not own or phases.count < FEWEST:
        return UNKNOWN
    answers = [_of_class(connections, one, phases.count) for one in own]
    experts = any(one.kind == "ep" for one in phases.classes)  # in groups of their own, always
    shown = "zero3" in answers or (micro_batches > 0 and not experts)
    if shown and _are_reduced_across(connections, own, answers):
        return "hybrid"
    if "zero3" in answers:
        return "zero3"
    largest = max(range(len(own)), key=lambda i: own[i].one.bytes)
    answer = answers[largest]
    if answer == "zero1" and not (micro_batches > 1 or _accumulates(own[largest], phases.count)):
        return UNKNOWN
    servers = topology.servers[phases.endpoints]
    hidden = np.unique(servers).size < servers.size
    if answer not in ("none", UNKNOWN):
        return answer
    if gather_one_way(connections, own, phases.count):
        return "zero3"
    return UNKNOWN if hidden else answer


def shows_shards(connections: Connections, phases: Phases) -> bool:
    """Whether sizes of messages show that some gradients are reduced, and parameters gathered."""
    own = (one for one in phases.classes if one.kind == "dp")
    return any(_of_class(connections, one, phases.count) in SHARDED for one in own)


def _of_class(connections: Connections, one: KindOf, count: int) -> str:
    """What most of some connections and steps of a class show."""
    own = list(cells(connections, one.one, one.step, count))
    if not own:
        return UNKNOWN
    rests = _rest(one, count)
    answers = Counter(_of_cell(cell, rests) for cell in own)
    answer, often = answers.most_common(1)[0]
    if answer == "none" and not _repeat(own):
        return UNKNOWN
    return answer if often >= MOSTLY * len(own) else UNKNOWN


def _repeat(own: Sequence[Cell]) -> bool:
    """Whether nearly all cells have the sizes of another one: those of messages, not of chance.

    Records that hold several messages, or samples of them, have other sizes in other steps.
    """
    sizes = [np.sort(size) for *_, size in own]
    alike = [
        any(
            one.size == other.size and bool((np.abs(one - other) <= EXACT * other).all())
            for other in sizes[:i] + sizes[i + 1 :]
        )
        for i, one in enumerate(sizes)
    ]
    return float(np.mean(alike)) >= NEARLY


def _of_cell(cell: Cell, rests: float) -> str:
    """What sizes of messages of a ``cell`` show; ``rests`` is the share of a step without any."""
    size = np.sort(cell[2])
    if size.size < FEWEST:
        return UNKNOWN
    value, often = distinct(size)
    ratios = fitting(value, often)
    if len(ratios) == 1:
        return "zero3" if ratios[0] < 1 else ("zero1" if ratios[0] == 1 else "zero2")
    once = int(np.gcd.reduce(often)) == 1 and value.size >= FEWEST
    return "none" if once and not ratios and rests > RESTS and not _updates(cell) else UNKNOWN


def _updates(cell: Cell) -> bool:
    """Whether a silence parts the bytes of a step as an update of sharded states does."""
    start, end, size = cell
    moved = np.cumsum(size)[:-1] / size.sum()
    silent = start[1:] > np.maximum.accumulate(end)[:-1]
    return any(bool((np.abs(moved[silent] - share) <= NEAR).any()) for share in UPDATES)


def _extents(one: KindOf, count: int) -> tuple[Floats, Floats]:
    """First start and last end of a class in each step [ns], NaN where there is nothing."""
    start, end = extents(one.traffic, one.step, count)
    busy = start <= end
    return np.where(busy, start, np.nan), np.where(busy, end, np.nan)


def _rest(one: KindOf, count: int) -> float:
    """Silence between the traffic of two steps, over a step; median."""
    start, end = _extents(one, count)
    step = np.diff(start)
    step[~(step > 0)] = np.nan  # a coarse clock gives two steps one time
    return finite_median((start[1:] - end[:-1]) / step)


def _accumulates(one: KindOf, count: int) -> bool:
    """Whether the class rests for longer than two backward passes can take."""
    start, end = _extents(one, count)
    return float(np.nanmedian((start[1:] - end[:-1]) / (end - start)[1:])) > PASSES


def _are_reduced_across(
    connections: Connections, own: Sequence[KindOf], answers: Sequence[str]
) -> bool:
    """Whether a class joins only members of different groups of those that shard something."""
    sharded = [one for one, answer in zip(own, answers, strict=True) if answer in SHARDED]
    if not sharded:
        return False
    src, dst = _ends(connections, sharded)
    group = components(src, dst, int(max(src.max(), dst.max())) + 1)
    for one, answer in zip(own, answers, strict=True):
        home, goal = _ends(connections, [one])
        inside = np.isin(home, src).all() and np.isin(goal, src).all()
        if answer not in SHARDED and inside and (group[home] != group[goal]).all():
            return True
    return False


def _ends(connections: Connections, own: Sequence[KindOf]) -> tuple[Codes, Codes]:
    """Source and destination of all connections of some classes."""
    chosen = np.concatenate([one.connections for one in own])
    return connections.src[chosen], connections.dst[chosen]


def gather_one_way(connections: Connections, own: Sequence[KindOf], count: int) -> bool:
    """Whether rings of some classes gather parameters in one direction, and reduce in the other.

    The gathers begin and end earlier, and both move for a while. Rings go both ways then.
    """
    chosen = np.concatenate([one.connections for one in own])
    src, dst = connections.src[chosen].astype(np.int64), connections.dst[chosen].astype(np.int64)
    codes, number = np.unique(src << 32 | dst, return_inverse=True)
    volume = np.bincount(number, connections.total_bytes[chosen])
    ahead, back = _couples(codes)
    if volume[ahead].sum() + volume[back].sum() < NEARLY * volume.sum():
        return False
    start, end = _pair_extents(connections, own, number, (codes.size, count))
    first = np.fmin.reduce(start, axis=0)
    step_ns = finite_median(np.diff(first[np.isfinite(first)]))
    lag = nanmedian(start[back] - start[ahead], axis=1)
    lead, other = np.where(lag >= 0, (ahead, back), (back, ahead))
    apart = start[other] - start[lead], end[other] - end[lead], end[lead] - start[other]
    return all(finite_median(nanmedian(one, axis=1)) > SMALL * step_ns for one in apart)


def _couples(codes: Ints) -> tuple[Ints, Ints]:
    """Indices of directed pairs and of those that lead back, in rings of three or more.

    In a ring of two both directions carry every collective.
    """
    src, dst = codes >> 32, codes & 0xFFFFFFFF
    neighbours = dict(zip(*np.unique(src, return_counts=True), strict=True))
    place = {code: i for i, code in enumerate(codes.tolist())}
    found = [
        (i, place[b << 32 | a])
        for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True))
        if a < b and b << 32 | a in place and min(neighbours[a], neighbours[b]) >= FEWEST - 1
    ]
    both = np.array(found, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _pair_extents(
    connections: Connections, own: Sequence[KindOf], number: Ints, shape: tuple[int, int]
) -> tuple[Floats, Floats]:
    """First start and last end of each directed pair in each step [ns], NaN where it is idle.

    ``number`` has the pair of each connection, in the order of the classes.
    """
    start, end = np.full(shape, np.inf), np.full(shape, -np.inf)
    before = 0
    for one in own:
        known, cell = one.cells(connections, shape[1])
        pair = number[before + cell // shape[1]], cell % shape[1]
        np.minimum.at(start, pair, one.traffic.start_ns[known])
        np.maximum.at(end, pair, one.traffic.end_ns[known])
        before += one.connections.size
    start[np.isinf(start)], end[np.isinf(end)] = np.nan, np.nan
    return start, end
