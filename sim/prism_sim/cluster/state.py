"""The state of the fabric: a few record arrays in one tuple.

An *entity* sends bytes at one pace: a single flow, or a ring whose hops are coupled. It uses links,
each with a weight, the number of its hops on that link. Its *template* has the list of its links: a
row of a compressed sparse table that many entities share. Every use of a link by an entity is a
node of the link's list, so the entities on a link are found without a search.

Compiled code changes these arrays in place and uses their places again. Python only grows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled_part

Array = NDArray[np.void]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
T = TypeVar("T", bound=np.generic)

to_int64 = cast(Callable[[int], int], np.int64)
"""Converts a number to the type of compiled inner functions, so each is compiled only once."""
NEVER = 2**62
"""The end of an entity that sends no bytes at present."""
NOTES = 16
"""Number of changes of its load that a link stores."""
NO_LOG = -1
ROW_HEAD = 3
"""Numbers in a row of a log before the burst rates: previous row, time, pace."""

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
        ("block", "i4"),  # first of its uses, and their number
        ("uses", "i4"),
        ("place", "i4"),  # in the heap of ends
        ("mark", "i4"),  # last solve that included it
        ("open", "i4"),  # whether the present solve has not fixed its rate
        ("next", "i4"),  # in the list of free places: from the place after this one
        ("hops", "i4"),  # of a coupled entity; 0 for a single flow
        ("touched", "i4"),  # whether it is in the list of this instant
        ("log", "i8"),  # newest row of its log, or NO_LOG
    ]
)
LINK = np.dtype(
    [
        ("capacity", "f8"),  # bytes per ns
        ("left", "f8"),  # free capacity
        ("weight", "f8"),  # of open entities, during a solve
        ("full_at", "f8"),  # the rate at which it would be full, during a solve
        ("first", "i4"),  # first use in its list
        ("mark", "i4"),
        ("level", "f8"),  # up to which hops may send; see prism_sim.cluster.pace
        ("settled", "i8"),  # number of the settling that computed `level`
        ("spared", "f8"),  # free bytes until `noted_ns`
        ("noted_ns", "i8"),
        ("notes", "i8"),  # number of notes; see prism_sim.cluster.history
        ("bucket_bytes", "f8"),  # 0 without a bucket; see prism_sim.cluster.bucket
        ("tokens", "f8"),  # bytes in the bucket when `spared` was `tokens_spared`
        ("tokens_spared", "f8"),
        ("held", "f8"),  # weight of all entities on it
    ]
)
USE = np.dtype([("weight", "f8"), ("entity", "i4"), ("link", "i4"), ("next", "i4"), ("prev", "i4")])
VIA = np.dtype([("weight", "f8"), ("link", "i4")])
CHOICE = np.dtype(
    [
        ("first", "i4"),  # the template of its first path
        ("paths", "i4"),  # number of its paths; 0 for a template that has its own links
        ("last", "i4"),  # the template that was chosen last
        ("chosen", "i4"),  # number of choices until now
        ("active", "i4"),  # transfers under way
        ("of", "i4"),  # of a path: the template that chooses among it and others; else -1
        ("closed", "i4"),  # of a path: whether it has failed
        ("silent_ns", "i8"),  # silence after which it chooses again
        ("busy_ns", "i8"),  # when it sent last
        ("by_load", "i4"),  # whether it takes the least loaded path
        ("key", "i8"),  # of the hash that chooses otherwise
    ]
)
"""How the transfers of a template choose their path; see :mod:`prism_sim.cluster.choosing`."""

HEAP_SIZE, FREE_ENTITY, USED_USES, MARK, N_SEEDS = range(5)
N_TOUCHED, SETTLES, USED_LOG, ACTIVE_LOG = range(5, 9)
FREE_BLOCK = 9  # ... and one list of free blocks for every power of two of uses
FREE_LOG = FREE_BLOCK + 32  # ... the same for the rows of logs
N_COUNTERS = FREE_LOG + 32


class Net(NamedTuple):
    """All arrays of the fabric that compiled code uses.

    ``heap`` has the entities in order of end, and ``heap_ns`` these ends. ``links`` and ``found``
    are work space for a solve, and ``touched`` for the coupled entities of an instant. ``log`` has
    the rows of their logs,
    ``note_ns`` and ``note_bytes`` the free capacity of links, and ``counters`` the sizes and list
    heads that are named above. Template t uses the ``uses[t]`` links from ``via[ptr[t]]`` on. If it
    is coupled, its ``hops[t]`` hops begin with ``hop_ptr[t]``, and hop h takes
    ``hop_link[hop_link_ptr[h]:hop_link_ptr[h + 1]]``, each with its ``hop_weight``.
    """

    entity: Array
    link: Array
    use: Array
    heap: Int32s
    heap_ns: Int64s
    links: Int32s
    found: Int32s
    counters: Int64s
    ptr: Int64s
    uses: Int32s
    via: Array
    hop_ptr: Int64s
    hops: Int32s
    hop_link_ptr: Int64s
    hop_link: Int32s
    hop_weight: NDArray[np.float64]
    choice: Array
    touched: Int32s
    log: NDArray[np.float64]
    note_ns: Int64s
    note_bytes: NDArray[np.float64]


class Tables(NamedTuple):
    """The tables of :class:`~prism_sim.cluster.templates.Templates` for compiled code."""

    ptr: Int64s
    uses: Int32s
    via: Array
    hop_ptr: Int64s
    hops: Int32s
    hop_link_ptr: Int64s
    hop_link: Int32s
    hop_weight: NDArray[np.float64]
    choice: Array


@compiled_part
def size_class(count: int) -> int:
    """Exponent of the smallest power of two that is at least ``count``."""
    size = 0
    while (1 << size) < count:
        size += 1
    return size


def new_net(capacity: NDArray[np.float64], tables: Tables, places: int, uses: int) -> Net:
    """A fabric at rest, with links of ``capacity`` [bytes/ns] and room for ``places`` entities."""
    link = np.zeros(len(capacity), LINK)
    link["capacity"] = link["left"] = capacity
    link["first"] = -1
    entity = np.zeros(places, ENTITY)
    counters = np.zeros(N_COUNTERS, np.int64)
    counters[MARK] = 1
    counters[FREE_BLOCK:] = -1
    room = np.zeros(len(capacity), np.int32)
    heap, found, touched = (np.zeros(places, np.int32) for _ in range(3))
    heap_ns = np.zeros(places, np.int64)
    use, log = np.zeros(uses, USE), np.zeros(1024)
    notes = np.zeros((len(capacity), NOTES), np.int64), np.zeros((len(capacity), NOTES))
    return Net(
        entity, link, use, heap, heap_ns, room, found, counters, *tables, touched, log, *notes
    )


def with_places(net: Net, places: int) -> Net:
    """The same fabric with room for ``places`` entities."""
    entity = grown(net.entity, places)
    found, touched = np.zeros(places, np.int32), np.zeros(places, np.int32)
    heap, heap_ns = grown(net.heap, places), grown(net.heap_ns, places)
    return net._replace(entity=entity, heap=heap, heap_ns=heap_ns, found=found, touched=touched)


def grown(array: NDArray[T], size: int, fill: int = 0) -> NDArray[T]:
    """A copy of ``array`` with ``size`` places, the new ones zero or ``fill``."""
    larger = np.full(size, fill, array.dtype) if fill else np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger
