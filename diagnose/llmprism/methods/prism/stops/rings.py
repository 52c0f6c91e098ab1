"""The rings of a collective whose hops are seen, between servers only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context
from llmprism.methods.prism.parameters import FEWEST
from llmprism.numerics.arrays import Ints


@dataclass(frozen=True)
class Ring:
    """Hops of one ring, in order: the place of each in its class, and the servers they leave."""

    places: Ints
    servers: Ints


def rings_of(context: Context, part: KindOf, fewest: int = FEWEST) -> list[Ring]:
    """The closed rings of a class of connections that lead through each server once.

    They have ``fewest`` servers or more.
    """
    own, servers = part.one.connections, context.topology.servers
    src, dst = context.connections.src[own], context.connections.dst[own]
    place: dict[int, int] = {}
    after: dict[int, int] = {}
    for number, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        if after.setdefault(a, b) != b:
            return []  # no simple ring
        place.setdefault(a, number)
    found, seen = [], set[int]()
    for first in after:
        members = [first]
        while first not in seen and (one := after.get(members[-1], first)) not in members:
            members.append(one)
        closed = after.get(members[-1]) == first and not seen & {*members}
        seen |= {*members}
        homes = servers[members]
        if closed and len(members) >= fewest and np.unique(homes).size == len(members):
            found.append(
                Ring(np.array([place[one] for one in members], np.int64), homes.astype(np.int64))
            )
    return found
