"""How fast bytes move between two endpoints: time on the wire for equal bytes, step by step.

The time that a burst lasts, over the bytes it holds, is its *pace*. That of a connection in a
step is the median over its bytes. A collective may begin, and then wait for a rank that is
late; so there it is the lower quartile: a NIC that is slow is slow in all bursts.

The unit is a *conversation*: both directions of one 5-tuple. A transfer needs its
acknowledgements, so a conversation is as slow as the slower of its directions, and it crosses
the parts of the network (NICs, links, switches) that either of them crosses.

The hops of a ring go at the pace of the slowest one. Where all of them are slow alike, nothing
shows which one it was, and they are judged as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.methods.prism.faults.bursts import bursts_of
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.series import Judged, judged
from llmprism.methods.prism.phases import KindOf
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components_of_edges

MESSAGES, COLLECTIVES = 0.5, 0.25  # share of a step's bytes that move faster than its pace
CLEARLY = 1.5  # messages that take less than half longer hardly delay what waits for them
LEAST = 0.1  # a pace that is worse by less does not show a fault


@dataclass(frozen=True)
class Conversations:
    """Conversations of one job, by kind of traffic, with their paces.

    Attributes
    ----------
    kind : of each conversation.
    group : conversations of one collective group have one number; -1 for pipelines.
    crosses : the parts of the network that each conversation crosses.
    pace : over the healthy one, and which steps are out.
    """

    kind: list[str]
    group: Ints
    crosses: list[frozenset[str]]
    pace: Judged


def slow_messages_at(context: Context, job: JobView) -> Bools:
    """Whether messages of a pipeline at each endpoint are slow, shape (endpoints, steps).

    Collectives do not count: they also look slow while they wait for a late rank.
    """
    conversations = conversations_of(context, job)
    names = [context.topology.addresses[end] for end in job.phases.endpoints.tolist()]
    slow = np.zeros((len(names), job.count), np.bool_)
    for row, name in enumerate(names):
        crossing = enumerate(zip(conversations.kind, conversations.crosses, strict=True))
        own = [i for i, (kind, crossed) in crossing if kind == "pp" and name in crossed]
        if own:
            clear = conversations.pace.out[own] & (conversations.pace.ratio[own] >= CLEARLY)
            slow[row] = clear.any(axis=0)
    return slow


def conversations_of(context: Context, job: JobView) -> Conversations:
    """Measure every conversation of ``job``, one entry for each class of traffic on it."""
    kinds: list[str] = []
    groups: list[Ints] = []
    crosses: list[frozenset[str]] = []
    paces: list[Floats] = []
    for part in job.phases.classes:
        own = part.one.connections
        pace = _pace(context, job, part)
        conversation = _number_of(context, own)
        for one in range(int(conversation.max(initial=-1)) + 1):
            paces.append(_slower(pace[conversation == one]))
            crosses.append(_crossed(context, own[conversation == one]))
        kinds += [part.kind] * (int(conversation.max(initial=-1)) + 1)
        group = _groups(context, part, own, conversation)
        groups.append(np.where(group < 0, -1, group + len(groups) * len(context.flows.addresses)))
    values = np.vstack(paces) if paces else np.empty((0, job.count))
    every = np.concatenate(groups) if groups else np.empty(0, np.int64)
    return Conversations(kinds, every, crosses, judged(values, LEAST))


def _pace(context: Context, job: JobView, part: KindOf) -> Floats:
    """Time on the wire over bytes of the typical burst, of each connection and step [ns/byte]."""
    bursts, count = bursts_of(context, job, part), job.count
    cell = bursts.place * count + bursts.step
    share = MESSAGES if part.kind == "pp" else COLLECTIVES
    lasted = (bursts.end_ns - bursts.start_ns).astype(np.float64)
    pace = lasted / np.maximum(bursts.size, 1)
    moved = bursts.size * (pace > 0)
    found = _weighted_quantile(cell, pace, moved.astype(np.float64), share)
    values = np.full(part.one.connections.size * count, np.nan)
    values[found[0]] = found[1]
    return values.reshape(-1, count)


def _weighted_quantile(
    cell: Ints, values: Floats, weight: Floats, share: float
) -> tuple[Ints, Floats]:
    """Cells that have weight, and in each the value below which ``share`` of the weight lies."""
    cell, values, weight = cell[weight > 0], values[weight > 0], weight[weight > 0]
    order = np.lexsort((values, cell))
    cell, values, weight = cell[order], values[order], weight[order]
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0))) if cell.size else cell
    sums = np.cumsum(weight)
    before = sums[opens] - weight[opens]
    total = np.diff(np.append(before, sums[-1:]))
    at = np.searchsorted(sums, before + share * total)
    return cell[opens], values[np.minimum(at, values.size - 1)]


def _slower(pace: Floats) -> Floats:
    """The slower direction, each relative to its own median."""
    with np.errstate(all="ignore"):
        relative = pace / np.array([[_median(row)] for row in pace])
    none = np.isnan(relative).all(axis=0)
    return np.where(none, np.nan, np.nanmax(np.where(none[None, :], 0.0, relative), axis=0))


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else np.nan


def _number_of(context: Context, own: Ints) -> Codes:
    """Number the conversations: a connection and the one back between the same ports are one."""
    connections, flows = context.connections, context.flows
    rows = connections.by.order[connections.by.offsets[own]]
    ends = [connections.src[own].astype(np.int64), connections.dst[own].astype(np.int64)]
    if {"src_port", "dst_port"} <= set(flows.optional):
        for side, name in enumerate(("src_port", "dst_port")):
            ends[side] = (ends[side] << 17) | (flows.optional[name][rows].astype(np.int64) + 1)
    pairs = np.sort(np.column_stack(ends), axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].ravel().astype(np.int32)


def _groups(context: Context, part: KindOf, own: Ints, conversation: Codes) -> Ints:
    """Number the collective groups of conversations: what the class's connections join."""
    connections = context.connections
    count = int(conversation.max(initial=-1)) + 1
    if part.kind == "pp":
        return np.full(count, -1)
    group = np.full(count, -1)
    group[conversation] = components_of_edges(connections.src[own], connections.dst[own])
    return group


def _crossed(context: Context, own: Ints) -> frozenset[str]:
    """NICs, links and switches that connections, and their answers, lead through."""
    connections, flows, names = context.connections, context.flows, context.topology.addresses
    parts: set[str] = set()
    for one in (*own.tolist(), *_answers(context, own)):
        parts |= {names[connections.src[one]], names[connections.dst[one]]}
        rows = connections.by.rows(one)
        paths = np.unique(flows.path[rows])
        for path in paths[paths >= 0].tolist():
            parts |= set(parts_of(flows.paths[path]))
    return frozenset(parts)


def _answers(context: Context, own: Ints) -> Sequence[int]:
    """Connections that answer: the way back between the same ports."""
    back = context.answers
    return [back[one] for one in own.tolist() if one in back]


def parts_of(path: str) -> list[str]:
    """Switches of a path, and links between neighbours as ``a|b`` with sorted ends.

    >>> parts_of("leaf1|spine0|?")
    ['leaf1', 'spine0', 'leaf1|spine0']
    """
    hops = path.split("|")
    links = ["|".join(sorted(pair)) for pair in pairwise(hops) if "?" not in pair]
    return [hop for hop in hops if hop != "?"] + links
