"""Kinds of traffic, from how a class of connections is laid out and when it moves.

Every class of a component is one of these:

``pp``
    Activations one way, gradients the other. In the silences inside a step more has gone one
    way than the other: activations that wait for their gradients.
``other``
    A collective between members of one pipeline (gradients of tied embeddings).
``ep``, ``cp``
    Collectives inside a data-parallel group that move all through the step: exchanges between
    experts join everyone with everyone, context parallelism passes keys and values round a ring.
``tp``
    Collectives that move all through the step, across data-parallel groups: a tensor-parallel
    group has one member in each.
``dp``
    What remains: gradients and parameters. There is one in every component that has
    collectives at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.classes import TrafficClass
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.cycles import Traffic
from llmprism.methods.prism.jobs import Part
from llmprism.methods.prism.stepping import Stepping
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import BOOLS, INTS, compile_early
from llmprism.numerics.graph import components

OUTSTANDING = 0.35  # share of silence with messages outstanding from which it is a pipeline
TOGETHER = 0.3  # share of the lesser direction's time in which both move, as in an exchange
AHEAD = 0.02  # of a step's volume, mean: what a pipeline has outstanding at least
PASSES = 0.65  # a pipeline rests for less than this share of a step
LATE = 0.2  # a collective that rests for a larger share of a step is no part of the passes
CLEARLY = 0.1  # of a step: what begins earlier than gradients by this is no part of them
GOES_ON = 0.05  # of its bytes: what an exchange of the passes moves in their second half at least
SAME_TIME, SAME_SIZE = 0.02, 0.02  # of a step, of a message: differences that count as none
LEADS = 0.9  # share of steps in which the same direction begins
ALIKE = 1.3  # ratio of messages a step up to which two classes may be one exchange
EQUAL = 0.9  # least over most of the volumes of couples that count as equal
PARTNERS = 2  # members of a group that distinguish a ring from a chain
MANY = 3  # partners from which an exchange is all-to-all

Set = frozenset[int]


@dataclass(frozen=True)
class Character:
    """What a class is like.

    Attributes
    ----------
    outstanding : share of the silence inside steps in which one direction is ahead of the other.
    ahead : mean amount by which, over the volume of a step.
    together : share of the time of the lesser direction in which both move.
    leads : share of steps in which the same direction begins, if clearly before the other.
    rest : the longest silence of a step over the step, median.
    messages : records of a connection in a step.
    groups : sets of endpoints that the class joins.
    pairs : ordered pairs of endpoints.
    """

    outstanding: float
    ahead: float
    together: float
    leads: float
    rest: float
    messages: float
    groups: tuple[Set, ...]
    pairs: frozenset[tuple[int, int]]

    @property
    def is_pipeline(self) -> bool:
        """Whether one direction waits for the other as a pipeline's does."""
        if self.messages <= 1.5:  # all messages of a step in one record
            return self.leads >= LEADS
        exchange = self.together >= TOGETHER and self.ahead < AHEAD
        if self.rest > PASSES and self.leads < LEADS:
            return False
        return self.outstanding > OUTSTANDING and not exchange


def kinds_of(connections: Connections, part: Part, nodes: int) -> list[tuple[str, float]]:
    """Kind and confidence of each class of ``part``."""
    classes, stepping = part.component.classes, part.stepping
    characters = [
        _character(connections, one, step, stepping.count, nodes)
        for one, step in zip(classes, stepping.step_of, strict=True)
    ]
    pipeline = {i for i, one in enumerate(characters) if one.is_pipeline}
    pipeline -= _meshes(connections, classes, pipeline)
    chains = _joined([characters[i].groups for i in pipeline])
    kinds: list[tuple[str, float]] = [("dp", 0.9)] * len(classes)
    collectives = []
    for i, one in enumerate(characters):
        if i in pipeline:
            kinds[i] = ("pp", _sure(one.outstanding, OUTSTANDING))
        elif any(group <= chain for chain in chains for group in one.groups):
            kinds[i] = ("other", 0.8)
        else:
            collectives.append(i)
    main = _main(part, characters, collectives)
    through = _through(classes, stepping, main) if main >= 0 else []
    late = [
        i
        for i in collectives
        if i == main
        or (characters[i].rest > LATE and not through[i])
        or _same_collective(connections, part, i, main)
    ]
    for together in _exchanges(characters, [i for i in collectives if i not in late]):
        one = _union([characters[i] for i in together])
        kind = _beside(one, characters[main])
        rests = min(characters[i].rest for i in together) > LATE
        if rests and kind[0] == "cp" and set(one.groups) <= set(characters[main].groups):
            continue  # parameters that the whole group gathers, layer by layer
        for i in together:
            kinds[i] = kind
    return kinds


def _meshes(
    connections: Connections, classes: Sequence[TrafficClass], candidates: set[int]
) -> set[int]:
    """Those of the ``candidates`` that join endpoints in more ways than a chain does.

    The stages of a pipeline form a chain: one couple of partners fewer than stages. An
    interleaved one closes it to a ring, by a couple that moves less than the others. A ring or a
    mesh of equal couples is a collective that goes both ways.
    """
    own = [classes[i].connections for i in sorted(candidates)]
    if not own:
        return set()
    chosen = np.concatenate(own)
    ends = np.sort(np.column_stack((connections.src[chosen], connections.dst[chosen])), axis=1)
    couples, which = np.unique(ends, axis=0, return_inverse=True)
    volume = np.bincount(which.ravel(), connections.total_bytes[chosen])
    nodes = int(ends.max()) + 1
    label = components(couples[:, 0], couples[:, 1], nodes)
    meshed = set()
    for one in np.unique(label[couples[:, 0]]).tolist():
        inside = label[couples[:, 0]] == one
        members = np.unique(couples[inside]).size
        equal = volume[inside].min() >= EQUAL * volume[inside].max()
        if members > PARTNERS and inside.sum() >= members and equal:
            meshed.add(one)
    return {i for i in candidates if label[connections.src[classes[i].connections[0]]] in meshed}


def _through(classes: Sequence[TrafficClass], stepping: Stepping, main: int) -> list[bool]:
    """Which classes move all through the passes of a step, before its gradients do.

    Gradients of the dense parameters begin in the step's last backward pass. A class moves all
    through if it begins clearly earlier, and goes on in the second half of the time until then:
    parameters that are gathered for the first forward pass do not.
    """
    count = stepping.count
    start = _firsts(classes[main].traffic, stepping.step_of[main], count)
    period = _period(start)
    found = []
    for one, step in zip(classes, stepping.step_of, strict=True):
        own = _firsts(one.traffic, step, count)
        lead = start - own
        known = np.isfinite(lead)
        if not known.any() or not np.median(lead[known]) > CLEARLY * period:
            found.append(False)
            continue
        inside = step >= 0
        at = step[inside]
        later = one.traffic.start_ns[inside] > own[at] + lead[at] / 2
        before = one.traffic.start_ns[inside] < start[at]
        size = one.traffic.size[inside]
        found.append(bool(size[later & before].sum() > GOES_ON * size.sum()))
    return found


def _same_collective(connections: Connections, part: Part, one: int, main: int) -> bool:
    """Whether a class moves messages of the main class's size in the same part of the step.

    The edges of a tree may carry different volumes.
    """
    classes, stepping = part.component.classes, part.stepping
    sizes, starts = [], []
    for i in (one, main):
        sizes.append(float(np.median(connections.typical_bytes[classes[i].connections])))
        starts.append(_firsts(classes[i].traffic, stepping.step_of[i], stepping.count))
    apart = np.abs(starts[0] - starts[1]) / _period(starts[1])
    known = np.isfinite(apart)
    together = bool(known.any() and np.median(apart[known]) < SAME_TIME)
    return together and abs(sizes[0] - sizes[1]) <= SAME_SIZE * sizes[1]


def _firsts(traffic: Traffic, step: Ints, count: int) -> Floats:
    """First start in each step [ns], NaN where there is none."""
    first = np.full(count, np.inf)
    known = step >= 0
    np.minimum.at(first, step[known], traffic.start_ns[known].astype(np.float64))
    return np.where(np.isinf(first), np.nan, first)


def _exchanges(characters: Sequence[Character], among: Sequence[int]) -> list[list[int]]:
    """Classes with about as many messages a step, together: volumes of experts differ."""
    found: list[list[int]] = []
    for i in sorted(among, key=lambda i: characters[i].messages):
        if found and characters[i].messages <= ALIKE * characters[found[-1][0]].messages:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def _union(own: Sequence[Character]) -> Character:
    pairs = frozenset().union(*(one.pairs for one in own))
    groups = tuple(_joined([one.groups for one in own]))
    return replace(own[0], groups=groups, pairs=pairs)


def _sure(value: float, bar: float) -> float:
    """Confidence from how far ``value`` is from ``bar``, both in [0, 1]."""
    span = 1 - bar if value > bar else bar
    return 0.5 + 0.5 * min(1.0, abs(value - bar) / span)


def _main(part: Part, characters: Sequence[Character], among: Sequence[int]) -> int:
    """The class of the dense parameters: it has the largest groups, and begins late in a step."""
    classes, stepping = part.component.classes, part.stepping
    first = {i: _firsts(classes[i].traffic, stepping.step_of[i], stepping.count) for i in among}
    begin = np.fmin.reduce(list(first.values())) if first else np.empty(0)
    period = _period(begin)

    def standing(i: int) -> tuple[bool, int, float, float, float]:
        one = characters[i]
        widest = max(len(group) for group in one.groups)
        after = float(np.nanmedian(first[i] - begin)) / period
        return one.rest > LATE, widest, round(after, 1), round(one.rest, 1), classes[i].bytes

    return max(among, key=standing) if among else -1


def _period(begin: Floats) -> float:
    """Median time between the begins of steps [ns]; infinite for a single step."""
    known = begin[np.isfinite(begin)]
    return float(np.median(np.diff(known))) if known.size > 1 else np.inf


def _beside(one: Character, main: Character) -> tuple[str, float]:
    """Kind of a collective that moves all through the step, beside the main one."""
    partners = np.unique([a for a, _ in one.pairs], return_counts=True)[1]
    if partners.max() >= MANY:
        return "ep", 0.9
    inside = all(any(group <= wide for wide in main.groups) for group in one.groups)
    if inside:
        return ("cp", 0.85) if _is_ring(one.pairs) else ("ep", 0.7)
    across = all(len(group & wide) <= 1 for wide in main.groups for group in one.groups)
    return ("tp", 0.85) if across and main.rest > LATE else ("dp", 0.6)


def _character(
    connections: Connections, one: TrafficClass, step: Ints, count: int, nodes: int
) -> Character:
    src, dst = connections.src[one.connections], connections.dst[one.connections]
    traffic = one.traffic
    outstanding, ahead, together, leads = 0.0, 0.0, 1.0, 0.0
    if one.two_way:
        outstanding, ahead = _outstanding(traffic, step)
        together, leads = _together(traffic), _leads(traffic, step, count)
    return Character(
        outstanding, ahead, together, leads, _rest(traffic, step, count),
        len(traffic) / one.connections.size / count, _groups(src, dst, nodes),
        frozenset(zip(src.tolist(), dst.tolist(), strict=True)),
    )  # fmt: skip


def _groups(src: Codes, dst: Codes, nodes: int) -> tuple[Set, ...]:
    label = components(src, dst, nodes)
    members: dict[int, set[int]] = {}
    for end in np.unique(np.concatenate((src, dst))).tolist():
        members.setdefault(int(label[end]), set()).add(end)
    return tuple(frozenset(group) for group in members.values())


def _joined(groups: Sequence[tuple[Set, ...]]) -> list[Set]:
    """Unions of groups that overlap."""
    joined: list[Set] = []
    for group in (g for own in groups for g in own):
        touching = [old for old in joined if old & group]
        joined = [old for old in joined if not old & group]
        joined.append(frozenset().union(group, *touching))
    return joined


def _is_ring(pairs: frozenset[tuple[int, int]]) -> bool:
    """Whether every member sends to exactly one and receives from exactly one."""
    out = np.unique([a for a, _ in pairs], return_counts=True)[1]
    into = np.unique([b for _, b in pairs], return_counts=True)[1]
    return bool((out == 1).all() and (into == 1).all() and out.size == into.size)


def _rest(traffic: Traffic, step: Ints, count: int) -> float:
    """The silence between a step's traffic and that of the next, over the step; median."""
    known = step >= 0
    start = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(start, step[known], traffic.start_ns[known])
    np.maximum.at(end, step[known], traffic.end_ns[known])
    busy = start <= end
    start, end = start[busy], end[busy]
    if start.size < 2:
        return 0.0
    silence = start[1:] - np.maximum.accumulate(end)[:-1]
    return float(np.median(silence / np.maximum(np.diff(start), 1)))


def _outstanding(traffic: Traffic, step: Ints) -> tuple[float, float]:
    """Share of the silence inside steps in which one direction is ahead; by how much, mean."""
    couples = int(traffic.couple.max()) + 1
    typical = float(np.median(traffic.size))
    order = np.lexsort((traffic.start_ns, traffic.couple))
    sums = _silences(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.size[order],
        traffic.forth[order], step[order], couples, typical / 2,
    )  # fmt: skip
    ahead_ns, byte_ns, silent_ns = (float(one.sum()) for one in sums)
    steps = max(1, np.unique(step).size)
    volume = float(traffic.size.sum()) / couples / steps
    return (ahead_ns / silent_ns, byte_ns / silent_ns / volume) if silent_ns > 0 else (0.0, 0.0)


@compiled
def _silences(
    couple: Ints,
    start_ns: Ints,
    end_ns: Ints,
    size: Ints,
    forth: Bools,
    step: Ints,
    couples: int,
    least: float,
) -> tuple[Floats, Floats, Floats]:
    """Silence inside steps of each couple: with one direction ahead [ns], the same times the
    bytes it is ahead by, and all of it [ns].

    The balance begins at zero in each step, so that a lost record disturbs one step only.
    """
    ahead_ns, byte_ns, silent_ns = np.zeros(couples), np.zeros(couples), np.zeros(couples)
    balance, last_end, last_couple, last_step = 0.0, 0, -1, -2
    for i in range(couple.size):
        c = couple[i]
        if c != last_couple or step[i] != last_step:
            balance, last_end = 0.0, start_ns[i]
        quiet = start_ns[i] - last_end
        if quiet > 0:
            silent_ns[c] += quiet
            byte_ns[c] += quiet * abs(balance)
            if abs(balance) >= least:
                ahead_ns[c] += quiet
        balance += size[i] if forth[i] else -size[i]
        last_end = max(last_end, end_ns[i])
        last_couple, last_step = c, step[i]
    return ahead_ns, byte_ns, silent_ns


compile_early(_silences, lambda: (INTS, INTS, INTS, INTS, BOOLS, INTS, 0, 0.0))


def _together(traffic: Traffic) -> float:
    """Share of the lesser direction's time in which both directions of a couple move."""
    order = np.lexsort((traffic.start_ns, traffic.couple))
    both, forth, back = _overlap(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.forth[order]
    )
    least = min(forth, back)
    return both / least if least > 0 else 1.0


@compiled
def _overlap(
    couple: Ints, start_ns: Ints, end_ns: Ints, forth: Bools
) -> tuple[float, float, float]:
    """Time in which both directions move, the one, and the other [ns]; summed over couples."""
    both, one, other = 0.0, 0.0, 0.0
    ends = np.zeros(2, np.int64)
    last = -1
    for i in range(couple.size):
        if couple[i] != last:
            ends[:] = start_ns[i]
            last = couple[i]
        way = 1 if forth[i] else 0
        begin = max(start_ns[i], ends[way])
        fresh = max(0, end_ns[i] - begin)
        if way == 1:
            one += fresh
        else:
            other += fresh
        both += max(0, min(end_ns[i], ends[1 - way]) - begin)
        ends[way] = max(ends[way], end_ns[i])
    return both, one, other


compile_early(_overlap, lambda: (INTS, INTS, INTS, BOOLS))


def _leads(traffic: Traffic, step: Ints, count: int) -> float:
    """Share of steps in which the same direction of a couple begins, clearly before the other."""
    couples = int(traffic.couple.max()) + 1
    first = np.full((couples * count, 2), np.iinfo(np.int64).max)
    last = np.zeros(couples * count, np.int64)
    cell = traffic.couple * count + step
    np.minimum.at(first, (cell, traffic.forth.astype(np.int64)), traffic.start_ns)
    np.maximum.at(last, cell, traffic.end_ns)
    whole = first.max(axis=1) < np.iinfo(np.int64).max
    lead = (first[:, 0] - first[:, 1])[whole].astype(np.float64)
    span = (last - first.min(axis=1))[whole]
    clear = np.where(np.abs(lead) > 0.05 * span, np.sign(lead), 0.0)
    owner = np.repeat(np.arange(couples), count)[whole]
    votes = np.bincount(owner, clear, couples) / np.maximum(
        np.bincount(owner, minlength=couples), 1
    )
    return float(np.abs(votes).mean())
