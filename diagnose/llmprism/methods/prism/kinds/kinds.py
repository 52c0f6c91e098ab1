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

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.halving import halving
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.characters import PASSES, Character, character_of
from llmprism.methods.prism.kinds.dense import main_class, period_of_begins
from llmprism.methods.prism.kinds.exchanges import kinds_of_collectives
from llmprism.methods.prism.kinds.members import COUPLE, is_line, joined, reduced_at_member
from llmprism.methods.prism.kinds.same_exchanges import EXCHANGES, alike_in_all_stages
from llmprism.methods.prism.kinds.stages import by_stage, lines, within_passes
from llmprism.methods.prism.kinds.unseen import one_sided, resembling
from llmprism.methods.prism.parameters import EQUAL, NEARLY, QUARTER, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part
from llmprism.numerics.arrays import INTS, Codes
from llmprism.numerics.graph import components
from prism_common.threads import in_threads

HEAVIER = 3.0  # times the bytes of others; where chunks close a ring, the others move double
WHOLE = 0.9  # quantile of the bytes of a step: of most others, records may be lost, or not seen
LONG = 5  # members of a line that is no tree of an all-reduce
GUESSED, SHAPED = 0.7, 0.9  # confidence of a pipeline that shows by its place, or its shape only


def kinds_of(
    connections: Connections, part: Part, nodes: int, sizes: Mapping[str, int]
) -> list[KindOf]:
    """Kind and confidence of each class of ``part``.

    What only unseen endpoints receive is of the kind of what it resembles. ``sizes``: places along
    each axis that is given.
    """
    sided = one_sided(connections, part.component.classes)
    seen = [i for i in range(len(part.component.classes)) if i not in sided]
    if not sided or not seen:
        return _kinds_of_seen(connections, part, nodes, sizes)
    classes, step_of = part.component.classes, part.stepping.step_of
    component = replace(part.component, classes=tuple(classes[i] for i in seen))
    stepping = replace(part.stepping, step_of=tuple(step_of[i] for i in seen), reference=0)
    judged = _kinds_of_seen(connections, Part(component, stepping), nodes, sizes)
    return judged + [resembling(connections, classes[i], step_of[i], judged) for i in sided]


def _kinds_of_seen(
    connections: Connections, part: Part, nodes: int, sizes: Mapping[str, int]
) -> list[KindOf]:
    """The same, from who waits for whom and when; collectives are judged stage by stage."""
    classes, stepping = part.component.classes, part.stepping
    own = list(zip(classes, stepping.step_of, strict=True))
    characters = in_threads(
        lambda each: character_of(connections, *each, stepping.count, nodes), own
    )
    whole = [
        np.quantile(one.volumes(connections, step, stepping.count), WHOLE, axis=1)
        for one, step in own
    ]
    halved = halving(connections, classes, whole)
    pipeline, guessed = _pipeline(connections, own, characters, halved)
    passes = [own[i] for i in sorted(pipeline)]
    pipeline = pipeline if sizes.get("pp") != 1 else set()
    chains = joined([characters[i].groups for i in pipeline])
    found, collectives = [], []
    for i, (one, step) in enumerate(own):
        if i in halved:
            found.append(KindOf(one, "dp", 0.99, step))
        elif i in pipeline:
            found.append(KindOf(one, "pp", _sure_of(characters[i], guessed), step))
        elif any(group <= chain for chain in chains for group in characters[i].groups):
            found.append(KindOf(one, "other", 0.97, step))
        else:
            collectives.append((one, step))
    stages = by_stage(connections, collectives) if pipeline else [collectives]
    judged = in_threads(
        lambda each: kinds_of_collectives(connections, each, stepping.count, nodes), stages
    )
    if pipeline:
        judged = within_passes(connections, judged, passes, stepping.count)
    kinds = _allowed(found + alike_in_all_stages(connections, judged), sizes)
    excluded = [] if pipeline else [one.connections for one, _ in passes]
    chosen = np.concatenate([INTS, *excluded])
    return [
        replace(one, shown="pp") if np.isin(one.connections, chosen).any() else one for one in kinds
    ]


def _allowed(kinds: Sequence[KindOf], sizes: Mapping[str, int]) -> list[KindOf]:
    """The kinds that given ``sizes`` of a layout allow: an axis of one place moves nothing.

    An exchange of the passes is then along the one axis of those that is longer, or else it moves
    gradients. Gradients are there if there are replicas.
    """
    longer = [axis for axis in EXCHANGES if sizes.get(axis, 2) > 1]
    into = dict.fromkeys({*EXCHANGES} - {*longer}, longer[0] if len(longer) == 1 else "dp")
    if sizes.get("dp", 1) > 1 and "dp" not in {into.get(one.kind, one.kind) for one in kinds}:
        into["other"] = "dp"
    return [
        replace(one, kind=into[one.kind], shown=one.kind.removeprefix("other"))
        if one.kind in into
        else one
        for one in kinds
    ]


def _pipeline(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
    halved: set[int],
) -> tuple[set[int], bool]:
    """Classes that are a pipeline, and whether only merged records suggest it.

    By who waits for whom, or else by the shape, or else by what merged records show. Those that
    are ``halved`` are collectives.
    """
    classes = [one for one, _ in own]
    found = {i for i, one in enumerate(characters) if one.is_pipeline} - halved
    found = _passing(connections, classes, characters, found)
    found -= _heavier(classes, found)
    found -= _meshes(connections, classes, found)
    found -= reduced_at_member(characters, found)
    found = found or lines(own, characters, set(range(len(own))) - halved)
    if found:
        return found, False
    merged = _merged_pipeline(connections, own, characters) - halved
    return merged - _meshes(connections, classes, merged), True


def _sure_of(one: Character, guessed: bool) -> float:
    """Confidence of a pipeline, from who waits for whom, or from its shape."""
    if guessed or not one.is_pipeline:
        return GUESSED if guessed else SHAPED
    return _sure(one.outstanding, QUARTER)


def _merged_pipeline(
    connections: Connections,
    own: Sequence[tuple[TrafficClass, Codes]],
    characters: Sequence[Character],
) -> set[int]:
    """Couples that must be a pipeline although each direction of a step is a single record.

    They lead from one data-parallel group to another, begin clearly before the gradients and end
    before them, and move less than half as much. The same direction begins in most steps, since a
    gradient needs an activation. In exchanges of tensor-parallel groups both begin at once.
    Acknowledgements do so, too. A few records in each direction hide as much as one, but if the
    couples form lines, in which always the same direction begins, they are the stages of pipelines.
    No exchange has lines of five or more: a ring is closed, and a tree has branches.
    """
    main = main_class(own, characters)
    if main < 0:
        return set()
    plain = _is_unanswered(connections, own)
    lead = characters[main]
    volumes = [one.bytes / one.connections.size for one, _ in own]
    period = period_of_begins(lead.first_ns)
    found = set()
    for i, ((one, _), character) in enumerate(zip(own, characters, strict=True)):
        across = all(len(group & wide) <= 1 for wide in lead.groups for group in character.groups)
        span = float(np.nanmedian(character.last_ns - character.first_ns))
        clearly = min(SMALL * period, QUARTER * span)
        early = float(np.nanmedian(lead.first_ns - character.first_ns)) > clearly
        over = float(np.nanmedian(lead.last_ns - character.last_ns)) > SMALL * period
        single = character.is_merged and one.two_way and not (plain and character.at_once)
        line = one.two_way and is_line(character)
        long = line and min(len(group) for group in character.groups) >= LONG
        shown = long or (over and (single or (line and character.leads >= NEARLY)))
        if shown and across and early and 2 * volumes[i] < volumes[main]:
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
    messages have the same size, or, where records hold several, the same sum, or, where sequences
    differ in length, their couples lead from one data-parallel group to another as those of other
    replicas do. Where host work makes all of them
    rest, those count of which the same direction begins every step, before the other moves.
    """
    sizes = {
        i: (
            float(np.median(connections.typical_bytes[classes[i].connections])),
            classes[i].bytes / classes[i].connections.size,
        )
        for i in candidates
    }
    passing = {i for i in candidates if characters[i].rest <= PASSES}
    passing = passing or {i for i in candidates if characters[i].begins_alone}
    same = {
        i
        for i in candidates
        if any(
            abs(own - size) <= EQUAL * size
            for one in passing
            for own, size in zip(sizes[i], sizes[one], strict=True)
        )
    }
    return same | _parallel(characters, candidates, same) if same else candidates


def _heavier(classes: Sequence[TrafficClass], candidates: set[int]) -> set[int]:
    """Those of the ``candidates`` that move far more than the one with most connections.

    All stages of a pipeline pass on as many messages; without several chunks of the model, those
    of one size. An exchange of gradients that is cut into many records may look as if one
    direction waited for the other.
    """
    if not candidates:
        return set()
    volume = {i: classes[i].bytes / classes[i].connections.size for i in candidates}
    most = max(candidates, key=lambda i: (classes[i].connections.size, -volume[i]))
    return {i for i in candidates if volume[i] > HEAVIER * volume[most]}


def _parallel(characters: Sequence[Character], candidates: set[int], known: set[int]) -> set[int]:
    """Those of the ``candidates`` that join the same two groups as couples of the ``known`` ones.

    Groups are those of all other classes; an endpoint without any stands for itself.
    """
    others = [one.groups for i, one in enumerate(characters) if i not in candidates]
    group = {end: i for i, own in enumerate(joined(others)) for end in own}
    joins = [
        {frozenset(group.get(end, -1 - end) for end in pair) for pair in one.pairs}
        for one in characters
    ]
    among = set().union(*(joins[i] for i in known))
    return {i for i in candidates if joins[i] <= among and all(len(pair) > 1 for pair in joins[i])}


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
        equal = volume[inside].min() >= NEARLY * volume[inside].max()
        if members > COUPLE and inside.sum() >= members and equal:
            meshed.add(one)
    return {i for i in candidates if label[connections.src[classes[i].connections[0]]] in meshed}


def _sure(value: float, bar: float) -> float:
    """Confidence from how far ``value`` is from ``bar``, both in [0, 1]."""
    span = 1 - bar if value > bar else bar
    return 0.5 + 0.5 * min(1.0, abs(value - bar) / span)
