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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.characters import (
    OUTSTANDING,
    PASSES,
    Character,
    Set,
    character_of,
)
from llmprism.methods.prism.classes import TrafficClass
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.sizes import gathers_shards
from llmprism.methods.prism.stages import by_stage
from llmprism.methods.prism.stepping import Part
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.graph import components

LATE = 0.2  # a collective that rests for a larger share of a step is no part of the passes
MAIN = 0.05  # of the bytes of the largest collective: what gradients have at least
AFTER = 0.05  # of a step: what begins later than that waits for a backward pass
CLEARLY = 0.1  # of a step: what begins earlier than gradients by this is no part of them
FORWARD = 0.25  # ... or by this share of its own time or bytes: a forward pass has a third of both
GOES_ON = 0.1  # of its bytes: what an exchange of the passes moves late in them at least
SAME_TIME, SAME_SIZE = 0.03, 0.02  # of a step, of a message: differences that count as none
EXACTLY = 0.001  # of a volume: what headers add to one of two, one a multiple of the other
LOST = 2.0  # ratio of messages a step up to which lost records explain the difference
ALIKE = 1.3  # ratio of messages a step up to which two classes may be one exchange
EQUAL = 0.9  # least over most of the volumes of couples that count as equal
PARTNERS = 2  # members of a group that distinguish a ring from a chain
GUESSED = 0.7  # confidence of a pipeline that shows by its place only
ONE_RECORD = 1.5  # records of a step in one direction, below which it is merged
MANY = 3  # partners from which an exchange is all-to-all


@dataclass(frozen=True)
class Judged:
    """A class, or the part of it in one stage, with its kind; ``step`` is that of each record."""

    one: TrafficClass
    kind: str
    confidence: float
    step: Codes


def kinds_of(connections: Connections, part: Part, nodes: int) -> list[Judged]:
    """Kind and confidence of each class of ``part``; collectives are judged stage by stage."""
    classes, stepping = part.component.classes, part.stepping
    characters = [
        character_of(connections, one, step, stepping.count, nodes)
        for one, step in zip(classes, stepping.step_of, strict=True)
    ]
    pipeline = {i for i, one in enumerate(characters) if one.is_pipeline}
    pipeline = _passing(connections, classes, characters, pipeline)
    pipeline -= _meshes(connections, classes, pipeline)
    merged: set[int] = set()
    if not pipeline:
        own = list(zip(classes, stepping.step_of, strict=True))
        merged = _merged_pipeline(connections, own, characters)
        pipeline = merged - _meshes(connections, classes, merged)
    chains = _joined([characters[i].groups for i in pipeline])
    found, collectives = [], []
    for i, (one, step) in enumerate(zip(classes, stepping.step_of, strict=True)):
        if i in pipeline:
            sure = GUESSED if i in merged else _sure(characters[i].outstanding, OUTSTANDING)
            found.append(Judged(one, "pp", sure, step))
        elif any(group <= chain for chain in chains for group in characters[i].groups):
            found.append(Judged(one, "other", 0.97, step))
        else:
            collectives.append((one, step))
    for stage in by_stage(connections, collectives) if pipeline else [collectives]:
        found += _kinds_of_collectives(connections, stage, stepping.count, nodes)
    return found


def _merged_pipeline(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
) -> set[int]:
    """Couples that must be a pipeline although each direction of a step is a single record.

    They lead from one data-parallel group to another, begin clearly before the gradients and end
    before them, and move less than half as much. The same direction begins in most steps, since a
    gradient needs an activation. In exchanges of tensor-parallel groups both begin at once.
    Acknowledgements do so, too.
    """
    main = _main(own, characters)
    if main < 0:
        return set()
    plain = _is_unanswered(connections, own)
    lead = characters[main]
    volumes = [one.bytes / one.connections.size for one, _ in own]
    period = _period(lead.first_ns)
    found = set()
    for i, ((one, _), character) in enumerate(zip(own, characters, strict=True)):
        across = all(len(group & wide) <= 1 for wide in lead.groups for group in character.groups)
        span = float(np.nanmedian(character.last_ns - character.first_ns))
        clearly = min(CLEARLY * period, FORWARD * span)
        early = float(np.nanmedian(lead.first_ns - character.first_ns)) > clearly
        over = float(np.nanmedian(lead.last_ns - character.last_ns)) > CLEARLY * period
        single = _is_merged(character) and one.two_way and not (plain and character.at_once)
        if single and across and early and over and 2 * volumes[i] < volumes[main]:
            found.add(i)
    return found


def _is_unanswered(connections: Connections, own: Sequence[tuple[TrafficClass, Codes]]) -> bool:
    """Whether some connection gets nothing back, so that records hold no acknowledgements."""
    nodes = int(max(connections.src.max(), connections.dst.max())) + 1
    every = connections.src.astype(np.int64) * nodes + connections.dst
    for one, _ in own:
        src, dst = connections.src[one.connections], connections.dst[one.connections]
        if not np.isin(dst.astype(np.int64) * nodes + src, every).all():
            return True
    return False


def _passing(
    connections: Connections,
    classes: Sequence[TrafficClass],
    characters: Sequence[Character],
    candidates: set[int],
) -> set[int]:
    """Those of the ``candidates`` that move through the passes, if any does.

    All classes of a pipeline do. Stages that have fewer messages rest for longer, but their
    messages have the same size.
    """
    size = {
        i: float(np.median(connections.typical_bytes[classes[i].connections])) for i in candidates
    }
    passing = {i for i in candidates if characters[i].rest <= PASSES}
    same = {
        i
        for i in candidates
        if any(abs(size[i] - size[one]) <= SAME_SIZE * size[one] for one in passing)
    }
    return same or candidates


def _kinds_of_collectives(
    connections: Connections, own: Sequence[tuple[TrafficClass, Codes]], count: int, nodes: int
) -> list[Judged]:
    """Kinds of classes that are no pipeline, with the step of each record."""
    characters = [character_of(connections, one, step, count, nodes) for one, step in own]
    kinds = [("dp", 0.99)] * len(own)
    for together, kind in _kinds_of_exchanges(connections, own, characters, count):
        for i in together:
            kinds[i] = kind
    return [Judged(one, *kind, step) for (one, step), kind in zip(own, kinds, strict=True)]


def _kinds_of_exchanges(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    count: int,
) -> Iterator[tuple[list[int], tuple[str, float]]]:
    """Classes that are an exchange together, with their kind; all others are data-parallel."""
    main = _main(own, characters)
    if main < 0:
        return
    among = range(len(own))
    early = characters[main].rest <= LATE and not _waits(
        characters[main], [characters[i] for i in _large(own)]
    )
    same = {main}
    same |= {i for i in among if _same_collective(connections, own, characters, i, main, early)}
    through = _through(own, characters, main)
    chosen = [
        i
        for i in among
        if i not in same
        and (through[i] or (early and characters[i].alike and not characters[main].alike))
    ]
    rest = {*same, *_large(own)} - set(chosen)
    dense = _union([characters[i] for i in sorted(rest)])
    closed = {i for i in rest if i not in same or _is_closed(characters[i])}
    parts = list(_union([characters[i] for i in same]).groups)
    parts += [group for i in sorted(closed) for group in characters[i].groups]
    for together in _exchanges(characters, chosen):
        one = _union([characters[i] for i in together])
        if not _is_closed(one):
            continue  # an edge of a ring whose other edges have other records
        kind = _beside(one, dense, parts)
        alike = all(characters[i].alike and not _is_merged(characters[i]) for i in together)
        parameters = not alike and (
            set(one.groups) <= set(dense.groups)
            or all(_ends_with(characters[i], characters[main]) for i in together)
        )
        parameters |= all(gathers_shards(connections, *own[i], count) for i in together)
        parameters |= all(_moves_shards(own, characters, i, main) for i in together)
        if kind[0] not in ("cp", "tp") or not parameters:
            yield together, kind


def _is_merged(one: Character) -> bool:
    """Whether all messages of a step are one record, which shows nothing of their sizes."""
    return one.messages <= ONE_RECORD


def _moves_shards(
    own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character], one: int, main: int
) -> bool:
    """Whether merged records have the volume of shards whose gradients the class ``main`` reduces.

    Parameters of two bytes are gathered twice and gradients of four bytes are reduced inside a
    group of shards, in each micro-batch; then gradients of one shard are reduced across groups.
    """
    shards, replicas = (max(len(group) for group in characters[i].groups) for i in (one, main))
    if not _is_merged(characters[one]) or replicas < PARTNERS:
        return False
    inside, across = (own[i][0].bytes / own[i][0].connections.size for i in (one, main))
    often = inside / across * (replicas - 1) / replicas / (shards - 1)
    return round(often) >= 1 and abs(often - round(often)) <= EXACTLY * often


def _ends_with(one: Character, main: Character) -> bool:
    """Whether a class ends with the gradients in most steps: it moves parameters of shards.

    Activations end with the last backward pass, before the last gradients.
    """
    early = float(np.nanmedian(main.last_ns - one.last_ns))
    return early <= SAME_TIME * _period(main.first_ns)


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


def _through(
    own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character], main: int
) -> list[bool]:
    """Which classes move all through the passes of a step, before its gradients do.

    Gradients of the dense parameters begin in the step's last backward pass. A class moves all
    through if it begins clearly earlier, nearer to the step's begin, and goes on in the second
    half of the time until then, or while gradients move. Parameters that are gathered for the
    first forward pass do not, nor do the outer exchanges of a halving and doubling all-reduce.
    """
    start, end = characters[main].first_ns, characters[main].last_ns
    begin = np.fmin.reduce([characters[i].first_ns for i in _large(own)])
    period = _period(start)
    found = []
    for (one, step), character in zip(own, characters, strict=True):
        first = character.first_ns
        lead = start - first
        known = np.isfinite(lead)
        if not known.any():
            found.append(False)
            continue
        span = float(np.median((character.last_ns - first)[known]))
        least = min(CLEARLY * period, FORWARD * span)
        inside = step >= 0
        at, size = step[inside], one.traffic.size[inside]
        records = one.traffic.start_ns[inside], one.traffic.end_ns[inside]
        if size[records[0] < start[at]].sum() >= FORWARD * size.sum():
            least = min(least, AFTER * period)
        least = max(least, float(np.median((first - np.fmin(first, begin))[known])))
        later = _share_between(records, first[at] + lead[at] / 2, start[at])
        beside = _share_between(records, start[at], end[at])
        goes_on = max((size * later).sum(), (size * beside).sum()) > GOES_ON * size.sum()
        found.append(bool(np.median(lead[known]) > least and goes_on))
    return found


def _share_between(records: tuple[Ints, Ints], begin: Floats, end: Floats) -> Floats:
    """Share of each record's time, from its start to its end, that is between two moments [ns].

    A record may hold all messages of a step, so its start alone does not show when they moved.
    """
    from_ns, until_ns = records
    length = np.maximum(until_ns - from_ns, 1)
    inside = np.minimum(from_ns + length, end) - np.maximum(from_ns, begin)
    return np.asarray(np.clip(np.nan_to_num(inside) / length, 0.0, 1.0), np.float64)


def _same_collective(
    connections: Connections,
    classes: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    one: int,
    main: int,
    early: bool,
) -> bool:
    """Whether a class begins and ends with the main class in most steps, or sends the same.

    The edges of a ring or a tree may carry different volumes, because records were lost too. They
    do not close to a ring of their own.
    Beside parameters that move ``early``, all through the passes, times show nothing. Sizes do not
    where records hold all messages of a step.
    """
    own, theirs = characters[one], characters[main]
    size, usual = (
        float(np.median(connections.typical_bytes[classes[i][0].connections])) for i in (one, main)
    )
    messages = own.messages / max(theirs.messages, 1e-9)
    alike = abs(size - usual) <= SAME_SIZE * usual and 1 / LOST <= messages <= LOST
    if alike and not (_is_merged(own) and _is_merged(theirs)):
        return True
    edges = all(any(group <= wide for wide in theirs.groups) for group in own.groups)
    edges &= max(len(group) for group in own.groups) <= PARTNERS or not _is_ring(own.pairs)
    if early and own.alike and not theirs.alike and not (edges and _partners(own) < MANY):
        return False
    period = _period(theirs.first_ns)
    apart = np.abs(own.first_ns - theirs.first_ns), np.abs(own.last_ns - theirs.last_ns)
    return all(
        np.isfinite(ns).any() and float(np.nanmedian(ns)) < SAME_TIME * period for ns in apart
    )


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


def _main(own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character]) -> int:
    """The class of the dense parameters: it ends a step, joins the most, and begins late."""
    large = _large(own)
    if not large:
        return -1
    period = _period(np.fmin.reduce([characters[i].first_ns for i in large]))
    end = np.fmax.reduce([characters[i].last_ns for i in large])

    def standing(i: int) -> tuple[bool, bool, int, float, float]:
        one = characters[i]
        ends = float(np.nanmedian(end - one.last_ns)) <= SAME_TIME * period
        rests = one.rest > LATE or _waits(one, [characters[j] for j in large])
        return (
            ends,
            rests,
            max(len(group) for group in one.groups),
            round(one.rest, 1),
            own[i][0].bytes,
        )

    return max(large, key=standing)


def _large(own: Sequence[tuple[TrafficClass, Codes]]) -> list[int]:
    """The classes whose bytes are comparable with those of the largest one."""
    most = max((one.bytes for one, _ in own), default=0.0)
    return [i for i, (one, _) in enumerate(own) if one.bytes >= MAIN * most]


def _waits(one: Character, characters: Sequence[Character]) -> bool:
    """Whether a class begins clearly after the first of ``characters``."""
    begin = np.fmin.reduce([other.first_ns for other in characters])
    return float(np.nanmedian(one.first_ns - begin)) > AFTER * _period(begin)


def _period(begin: Floats) -> float:
    """Median time between the begins of steps [ns]; infinite for a single step."""
    known = begin[np.isfinite(begin)]
    return float(np.median(np.diff(known))) if known.size > 1 else np.inf


def _beside(one: Character, dense: Character, parts: Sequence[Set]) -> tuple[str, float]:
    """Kind of an exchange of the passes, beside the ``dense`` classes with the groups ``parts``.

    The gradients of experts are reduced among the replicas that hold the same ones: by groups that
    have one member in each expert-parallel group. Context parallelism has no such groups.
    """
    if _partners(one) >= MANY:
        return "ep", 0.97
    inside = all(any(group <= wide for wide in dense.groups) for group in one.groups)
    if inside:
        own = [part for part in parts if any(part & group for group in one.groups)]
        crossed = any(all(len(part & group) <= 1 for group in one.groups) for part in own)
        return ("cp", 0.97) if _is_ring(one.pairs) and not crossed else ("ep", 0.8)
    across = all(len(group & wide) <= 1 for wide in dense.groups for group in one.groups)
    if across:
        return "tp", 0.97
    return ("ep", 0.6) if _partners(one) >= PARTNERS else ("dp", 0.6)


def _is_closed(one: Character) -> bool:
    """Whether every member both sends and receives: edges that are left out of a ring do not."""
    return {a for a, _ in one.pairs} == {b for _, b in one.pairs}


def _partners(one: Character) -> int:
    """The most partners that a member sends to."""
    return int(np.unique([a for a, _ in one.pairs], return_counts=True)[1].max())


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
