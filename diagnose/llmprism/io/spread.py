"""Connections whose messages are spread over several paths, and what each part of these carries.

A connection that keeps its path, or moves to another one once, is explained by all links that it
crossed. One that is spread, by packets or message by message, changes its path all the time. Then a
link explains only the share of the bytes that crosses it.

A healthy transfer fills one of the links on its path, alone or with all others that cross this link
at the same time: :func:`link_uses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, pairwise

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, grouped

MOVES = 4  # changes of path of a connection that two uplinks leave, which come back
OFTEN = 0.1  # of the changes that paths drawn again for each record would show
BITS = 8.0  # of a byte
MEASURED = 2_000_000  # records, of which rates are measured
MOST = 0.5  # share of the bytes that a part explains a connection with


def is_spread(flows: FlowTable, rows: Ints | Codes) -> bool:
    """Whether the records ``rows`` of one connection change their path from one to the next."""
    codes = flows.path[rows[np.argsort(flows.start_ns[rows], kind="stable")]]
    codes = codes[codes >= 0]
    if not codes.size:
        return False
    share = np.bincount(codes) / codes.size
    expected = codes.size * (1 - float((share**2).sum()))
    return bool(np.count_nonzero(np.diff(codes)) > max(MOVES, OFTEN * expected))


def carrying(
    flows: FlowTable, rows: Ints | Codes, parts_of: Callable[[str], Iterable[str]]
) -> frozenset[str]:
    """Parts of the paths of ``rows``; of a spread connection those that carry most of its bytes."""
    codes, size = flows.path[rows], flows.bytes[rows]
    codes, size = codes[codes >= 0], size[codes >= 0]
    known, place = np.unique(codes, return_inverse=True)
    each = {code: frozenset(parts_of(flows.paths[code])) for code in known.tolist()}
    if known.size < 2 or not is_spread(flows, rows):
        return frozenset().union(*each.values())
    share = np.bincount(place, size) / max(int(size.sum()), 1)
    carried: dict[str, float] = {}
    for code, part_of_bytes in zip(known.tolist(), share.tolist(), strict=True):
        for part in each[code]:
            carried[part] = carried.get(part, 0.0) + part_of_bytes
    return frozenset(part for part, whole in carried.items() if whole > MOST)


def link_uses(
    flows: FlowTable, topology: Topology, owner: Ints, slice_ns: float
) -> tuple[Floats, Floats]:
    """How full the fullest link of each record is while it lasts, and what of that is of others.

    ``owner`` is the job of each record, -1 for none, below -1 for records that do not count. Both
    are shares of the capacity, shape (records,); NaN for records without a duration, where no
    capacity is known, and for all but some slices of ``slice_ns`` in a large recording.
    """
    lasting = np.maximum(flows.lengths_ns(np.arange(len(flows))), 0).astype(np.float64)
    counted = (lasting > 0) & (owner >= -1) & _looked_at(flows, slice_ns)
    rows, link, capacity = _crossings(flows, topology, counted)
    use, others = np.full((2, len(flows)), np.nan)
    begin = (flows.start_ns - flows.start_ns.min(initial=0)).astype(np.float64)
    by = grouped(link, capacity.size)
    for one in np.unique(link).tolist():
        on_link = rows[by.rows(one)]
        every = _moved(flows, begin, lasting, on_link)
        for job in np.unique(owner[on_link]).tolist():
            own = on_link[owner[on_link] == job]
            most, shared = capacity[one] * lasting[own], np.zeros(own.size)
            here = every(own) / most
            if own.size < on_link.size:
                shared = here - _moved(flows, begin, lasting, own)(own) / most
            fuller = ~(here <= use[own])
            use[own[fuller]], others[own[fuller]] = here[fuller], shared[fuller]
    return use, others


def _moved(
    flows: FlowTable, begin: Floats, lasting: Floats, rows: Ints
) -> Callable[[Ints], Floats]:
    """What the records ``rows`` together move while others last, as a function of these."""
    rate = flows.bytes[rows] / lasting[rows]
    moment = np.concatenate((begin[rows], begin[rows] + lasting[rows]))
    order = np.argsort(moment, kind="stable")
    at, slope = moment[order], np.cumsum(np.concatenate((rate, -rate))[order])
    sent = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(at))))
    return lambda own: (
        np.interp(begin[own] + lasting[own], at, sent) - np.interp(begin[own], at, sent)
    )


def _looked_at(flows: FlowTable, slice_ns: float) -> Bools:
    """Records that are measured: all, or those of some slices, spread over all time."""
    every = max(-(-len(flows) // MEASURED), 1)
    place = (flows.start_ns - flows.start_ns.min(initial=0)) // int(slice_ns)
    found: Bools = place % every == 0
    return found


def _crossings(flows: FlowTable, topology: Topology, shown: Bools) -> tuple[Ints, Ints, Floats]:
    """Records and the directed links that they cross, and the capacity of each [bytes/ns]."""
    ports = np.array([max(len(one), 1) for one in topology.leaves], np.float64)
    nics = ports * topology.nic_gbps
    cables: dict[frozenset[str], float] = {}
    for cable in topology.links:
        both = frozenset((cable.a, cable.b))
        cables[both] = max(cables.get(both, 0.0), np.nan if cable.gbps is None else cable.gbps)
    hops = [[*pairwise(path.split("|"))] for path in flows.paths]
    names = {name: 2 * nics.size + at for at, name in enumerate(dict.fromkeys(chain(*hops)))}
    between = [cables.get(frozenset(name), np.nan) for name in names]
    capacity = np.concatenate((nics, nics, between)) / BITS
    count = np.array([*map(len, hops), 0])
    flat = np.array([names[one] for one in chain(*hops)], np.int64)
    row = np.flatnonzero(shown)
    held = count[flows.path[row]]  # an unknown path, -1, is the last one
    first = np.concatenate(([0], np.cumsum(count)[:-1]))[flows.path[row]]
    within = np.arange(held.sum()) - np.repeat(np.cumsum(held) - held, held)
    rows = np.concatenate((row, row, np.repeat(row, held)))
    links = (flows.src[row], nics.size + flows.dst[row], flat[np.repeat(first, held) + within])
    link = np.concatenate(links).astype(np.int64)
    known = capacity[link] > 0
    return rows[known], link[known], capacity
