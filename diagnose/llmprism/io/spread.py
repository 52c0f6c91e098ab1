"""Connections whose messages are spread over several paths, and what each part of these carries.

A connection that keeps its path, or moves to another one once, is explained by all links that it
crossed. One that is spread, by packets or message by message, changes its path all the time. Then a
link explains only the share of the bytes that crosses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.numerics.arrays import Codes, Ints

MOVES = 4  # changes of path of a connection that two uplinks leave, which come back
OFTEN = 0.1  # of the changes that paths drawn again for each record would show
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
