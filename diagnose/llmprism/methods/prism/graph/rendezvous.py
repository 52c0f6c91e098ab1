"""Operations that ranks begin at the same moment: each of them may have waited for the others.

A program may send and receive in one call, and many libraries move no data before both sides are
there. Then the messages of both directions begin together in every step, also if one side is late.
So they are one *rendezvous*, which both ranks join.

A collective of two levels adds up inside each server first. Then the rings over servers begin
together at each server, though they have no rank in common: they are one rendezvous as well. So are
those of ranks that work on one layer together. Any other operation is one by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.graph.nodes import Nodes
from llmprism.methods.prism.parameters import AT_ONCE, RENDEZVOUS
from llmprism.numerics.arrays import Codes, Floats, Ints, grouped
from llmprism.numerics.missing import nanmedian, nanquantile


@dataclass(frozen=True)
class Rendezvous:
    """Which operations are one rendezvous.

    Attributes
    ----------
    of : number of the rendezvous of each operation, shape (operations,).
    together_ns : within what of the last one others join at the same moment, by rendezvous.
    """

    of: Ints
    together_ns: Floats


def rendezvous_of(nodes: Nodes, servers: Codes | Ints, together_ns: float) -> Rendezvous:
    """Find the rendezvous; what is within ``together_ns`` is at the same moment for every clock.

    ``servers`` are those of the ranks.
    """
    rendezvous = _inside_servers(nodes, servers, together_ns)
    within = np.full(rendezvous.size, together_ns)
    opening = np.fmin.reduce(nodes.begin, axis=0)
    usual = nanmedian(nodes.begin - opening, axis=1)
    lanes = _lanes(nodes)
    for (sender, receiver), own in lanes.items():
        back = lanes.get((receiver, sender))
        if sender > receiver or back is None:
            continue
        back = back[np.argsort(usual[back], kind="stable")]
        right = np.searchsorted(usual[back], usual[own])
        for side in (right - 1, right):
            other = back[np.clip(side, 0, back.size - 1)]
            apart = _apart(nodes, own, other)
            meets = apart <= max(together_ns, AT_ONCE * _spacing(usual[own]))
            rendezvous[other[meets]] = rendezvous[own[meets]]
            np.maximum.at(within, rendezvous[own[meets]], apart[meets])
    return Rendezvous(rendezvous, within)


def _inside_servers(nodes: Nodes, servers: Codes | Ints, together_ns: float) -> Ints:
    """Number of the rendezvous of each operation, where collectives begin together at all servers.

    Each has one rank at each of these servers.
    """
    rendezvous = np.arange(len(nodes.begin))
    opens = np.full_like(nodes.begin, np.inf)
    np.minimum.at(opens, nodes.operation, np.nan_to_num(nodes.join, nan=np.inf))
    opens[np.isinf(opens)] = np.nan
    known: dict[tuple[str, int], list[tuple[set[int], Codes]]] = {}
    every = nodes.communicator, nodes.communicator[nodes.operation]
    by = [grouped(of, len(nodes.communicators)) for of in every]
    for number, one in enumerate(nodes.communicators):
        operations, parts = (each.rows(number) for each in by)
        places = set() if one.kind == "pp" else set(servers[nodes.rank[parts]].tolist())
        if len(places) < 2 or parts.size != operations.size * len(places):
            continue
        alike = known.setdefault((one.kind, operations.size), [])
        for same in [other for servers, other in alike if servers & places]:
            apart = nanquantile(np.abs(opens[operations] - opens[same]), RENDEZVOUS)
            if np.isfinite(apart).any() and np.nanmax(apart) <= together_ns:
                rendezvous[operations] = rendezvous[same]
        alike.append((places, operations))
    return rendezvous


def _spacing(usual_ns: Floats) -> float:
    """Median time between messages of one lane [ns]."""
    return float(np.median(np.diff(np.sort(usual_ns)))) if usual_ns.size > 1 else 0.0


def _lanes(nodes: Nodes) -> dict[tuple[int, int], Ints]:
    """The messages from one rank to another, by both ranks."""
    sends = np.isfinite(nodes.join).any(axis=1)
    arrives = np.isfinite(nodes.arrive).any(axis=1)
    members = np.bincount(nodes.operation, minlength=len(nodes.begin))
    source, target = np.full((2, len(nodes.begin)), -1)
    source[nodes.operation[sends & ~arrives]] = nodes.rank[sends & ~arrives]
    target[nodes.operation[arrives & ~sends]] = nodes.rank[arrives & ~sends]
    messages = np.flatnonzero((members == 2) & (source >= 0) & (target >= 0))
    if not messages.size:
        return {}
    order = messages[np.lexsort((target[messages], source[messages]))]
    changes = np.diff(source[order]) | np.diff(target[order])
    lanes = np.split(order, np.flatnonzero(changes) + 1)
    return {(int(source[own[0]]), int(target[own[0]])): own for own in lanes}


def _apart(nodes: Nodes, own: Ints, other: Ints) -> Floats:
    """By how much operations begin apart, in most steps in which both are known [ns]."""
    apart = np.abs(nodes.begin[own] - nodes.begin[other])
    known = np.isfinite(apart).sum(axis=1) > 1
    return np.where(known, nanquantile(apart, RENDEZVOUS), np.inf)
