"""Kinds of collectives: which of them are exchanges of the passes, beside the gradients.

Experts, context-parallel and tensor-parallel groups exchange activations all through the passes of
a step, before its gradients begin. Shards of parameters are gathered there, too, and are
data-parallel like the gradients (:mod:`~llmprism.methods.prism.kinds.parameters`). The members of a
group show which exchange it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.classes.sizes import is_of_one_size
from llmprism.methods.prism.kinds.characters import Character, Set, character_of
from llmprism.methods.prism.kinds.dense import (
    MANY,
    begins_later,
    large_classes,
    main_class,
    period_of_begins,
)
from llmprism.methods.prism.kinds.members import COUPLE, apart, is_closed, is_ring, partners, union
from llmprism.methods.prism.kinds.parameters import unless_parameters
from llmprism.methods.prism.parameters import EQUAL, QUARTER, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats, Ints

LOST = 2.0  # ratio of messages a step up to which lost records explain the difference


def kinds_of_collectives(
    connections: Connections, own: Sequence[tuple[TrafficClass, Codes]], count: int, nodes: int
) -> list[KindOf]:
    """Kinds of classes that are no pipeline, with the step of each record."""
    characters = [character_of(connections, one, step, count, nodes) for one, step in own]
    kinds = [("dp", 0.99)] * len(own)
    for together, kind in _kinds_of_exchanges(connections, own, characters, count):
        for i in together:
            kinds[i] = kind
    return [KindOf(one, *kind, step) for (one, step), kind in zip(own, kinds, strict=True)]


def _kinds_of_exchanges(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    count: int,
) -> Iterator[tuple[list[int], tuple[str, float]]]:
    """Classes that are an exchange together, with their kind; all others are data-parallel."""
    main = main_class(own, characters)
    if main < 0:
        return
    same, chosen = _candidates(connections, own, characters, main)
    rest = {*same, *large_classes(own)} - set(chosen)
    dense = union([characters[i] for i in sorted(rest)])
    parts = list(union([characters[i] for i in same]).groups)
    parts += _whole_groups(own, characters, rest)
    for together in apart(characters, chosen):
        one = union([characters[i] for i in together])
        if not is_closed(one):
            continue  # an edge of a ring whose other edges have other records
        kind = _beside(one, dense, parts)
        if kind[0] == "cp" and all(_sends_tokens(characters[i], own[i][0]) for i in together):
            kind = ("ep", 0.8)
        if kind[0] in ("cp", "tp"):
            kind = unless_parameters(connections, own, characters, (together, main, count), kind)
        yield together, kind


def _candidates(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    main: int,
) -> tuple[set[int], list[int]]:
    """Classes of the same collective as ``main``, and those that may be exchanges of passes."""
    among = range(len(own))
    early = characters[main].rest <= QUARTER and not begins_later(
        characters[main], [characters[i] for i in large_classes(own)]
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
    return same, chosen


def _sends_tokens(character: Character, one: TrafficClass) -> bool:
    """Whether pairs of ranks exchange messages of one size, as tokens to and from their experts.

    Every pass sends as many. A ring of two has the same shape, but context parallelism sends keys
    and values forth, and back twice as much with their gradients.
    """
    pairs = max(len(group) for group in character.groups) == COUPLE
    return pairs and not character.is_merged and is_of_one_size(one.traffic.size)


def _whole_groups(
    own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character], among: set[int]
) -> list[Set]:
    """Groups of classes, with the edges of a ring together, whose records may differ in size."""
    volume = {i: own[i][0].bytes / own[i][0].connections.size for i in among}
    found: list[Set] = []
    for i in sorted(among):
        alike = [j for j in among if abs(volume[j] - volume[i]) <= EQUAL * volume[i]]
        together = (
            characters[i] if is_closed(characters[i]) else union([characters[j] for j in alike])
        )
        found += together.groups if is_closed(together) else ()
    return found


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
    begin = np.fmin.reduce([characters[i].first_ns for i in large_classes(own)])
    period = period_of_begins(start)
    found = []
    for (one, step), character in zip(own, characters, strict=True):
        first = character.first_ns
        lead = start - first
        known = np.isfinite(lead)
        if not known.any():
            found.append(False)
            continue
        span = float(np.median((character.last_ns - first)[known]))
        least = min(SMALL * period, QUARTER * span)
        inside = step >= 0
        at, size = step[inside], one.traffic.size[inside]
        records = one.traffic.start_ns[inside], one.traffic.end_ns[inside]
        if size[records[0] < start[at]].sum() >= QUARTER * size.sum():
            least = min(least, SMALL * period)
        least = max(least, float(np.median((first - np.fmin(first, begin))[known])))
        later = _share_between(records, first[at] + lead[at] / 2, start[at])
        beside = _share_between(records, start[at], end[at])
        goes_on = max((size * later).sum(), (size * beside).sum()) > SMALL * size.sum()
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
    alike = abs(size - usual) <= EQUAL * usual and 1 / LOST <= messages <= LOST
    if alike and not (own.is_merged and theirs.is_merged):
        return True
    edges = all(any(group <= wide for wide in theirs.groups) for group in own.groups)
    edges &= max(len(group) for group in own.groups) <= COUPLE or not is_ring(own.pairs)
    if early and own.alike and not theirs.alike and not (edges and partners(own) < MANY):
        return False
    period = period_of_begins(theirs.first_ns)
    apart = np.abs(own.first_ns - theirs.first_ns), np.abs(own.last_ns - theirs.last_ns)
    return all(np.isfinite(ns).any() and float(np.nanmedian(ns)) < EQUAL * period for ns in apart)


def _beside(one: Character, dense: Character, parts: Sequence[Set]) -> tuple[str, float]:
    """Kind of an exchange of the passes, beside the ``dense`` classes with the groups ``parts``.

    The gradients of experts are reduced among the replicas that hold the same ones: by groups that
    have one member in each expert-parallel group. Context parallelism has no such groups.
    """
    if partners(one) >= MANY:
        return "ep", 0.97
    inside = all(any(group <= wide for wide in dense.groups) for group in one.groups)
    if inside:
        own = [part for part in parts if any(part & group for group in one.groups)]
        crossed = any(all(len(part & group) <= 1 for group in one.groups) for part in own)
        return ("cp", 0.97) if is_ring(one.pairs) and not crossed else ("ep", 0.8)
    across = all(len(group & wide) <= 1 for wide in dense.groups for group in one.groups)
    if across:
        return "tp", 0.97
    return ("ep", 0.6) if partners(one) > 1 else ("dp", 0.6)
