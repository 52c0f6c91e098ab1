"""The fabric's memory: a few record arrays, passed around as one tuple.

An *entity* is anything that moves bytes at one pace: a single flow, or a ring whose hops
are coupled. It uses links, each with a weight: how many of its hops run through that link.
Which links those are is its *template*'s, a row of a compressed sparse table that many
entities share. Every use of a link by an entity is a node of that link's list, so that
whoever shares a link is found without looking at anyone else.

Compiled code works on these arrays in place, and reuses their places; Python only grows them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.void]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
T = TypeVar("T", bound=np.generic)

NEVER = 2**62
"""An end that is not in sight: the entity moves no bytes."""

ENTITY = np.dtype(
    [
        ("left_bytes", "f8"),  # per hop, as of `since_ns`
        ("rate", "f8"),  # bytes per ns and hop
        ("cap", "f8"),
        ("since_ns", "i8"),
        ("start_ns", "i8"),
        ("end_ns", "i8"),  # predicted at the present rate
        ("size_bytes", "i8"),
        ("template", "i4"),
        ("owner", "i4"),  # batch, or flow of a program
        ("block", "i4"),  # first of its uses
        ("place", "i4"),  # in the heap of ends
        ("mark", "i4"),  # solve that saw it last
        ("open", "i4"),  # whether the present solve has still to fix its rate
        ("next", "i4"),  # in the list of free places
    ]
)
LINK = np.dtype(
    [
        ("capacity", "f8"),  # bytes per ns
        ("left", "f8"),  # of it, during a solve
        ("weight", "f8"),  # of open entities, during a solve
        ("first", "i4"),  # use, of the list of its uses
        ("mark", "i4"),
    ]
)
USE = np.dtype([("weight", "f8"), ("entity", "i4"), ("link", "i4"), ("next", "i4"), ("prev", "i4")])
VIA = np.dtype([("weight", "f8"), ("link", "i4")])

HEAP_SIZE, FREE_ENTITY, USED_USES, MARK, N_SEEDS = range(5)
FREE_BLOCK = 5  # ... and one list of free blocks for every power of two of uses
N_COUNTERS = FREE_BLOCK + 32


class Net(NamedTuple):
    """Everything that compiled code needs to know about the fabric.

    ``heap`` holds the entities in order of end, ``links`` and ``found`` are room for a
    solve, ``counters`` the sizes and list heads named above. Template t uses the links
    ``via[ptr[t]:ptr[t + 1]]``.
    """

    entity: Array
    link: Array
    use: Array
    heap: Int32s
    links: Int32s
    found: Int32s
    counters: Int64s
    ptr: Int64s
    via: Array


def new_net(capacity: NDArray[np.float64], ptr: Int64s, via: Array, places: int, uses: int) -> Net:
    """A fabric at rest, with links of ``capacity`` [bytes/ns] and room for ``places`` entities."""
    link = np.zeros(len(capacity), LINK)
    link["capacity"] = capacity
    link["first"] = -1
    entity = np.zeros(places, ENTITY)
    entity["next"] = np.arange(1, places + 1)
    counters = np.zeros(N_COUNTERS, np.int64)
    counters[MARK] = 1
    counters[FREE_BLOCK:] = -1
    room = np.zeros(len(capacity), np.int32)
    heap, found = np.zeros(places, np.int32), np.zeros(places, np.int32)
    return Net(entity, link, np.zeros(uses, USE), heap, room, found, counters, ptr, via)


def with_places(net: Net, places: int) -> Net:
    """The same fabric with room for ``places`` entities.

    The list of free places ends with their number, which is the first new place.
    """
    old = len(net.entity)
    entity = grown(net.entity, places)
    entity["next"][old:] = np.arange(old + 1, places + 1)
    found = np.zeros(places, np.int32)
    return net._replace(entity=entity, heap=grown(net.heap, places), found=found)


def grown(array: NDArray[T], size: int, fill: int = 0) -> NDArray[T]:
    """A copy of ``array`` with ``size`` places, the new ones zero or ``fill``."""
    larger = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
