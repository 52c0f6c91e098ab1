"""A binary heap of the entities in order of their predicted end.

Ends change with the rates, so each entity stores its own ``place`` in the heap. The ends are also
in an array of their own, in the order of the heap: a comparison reads no entity.
"""

from __future__ import annotations

from prism_common.compiled import compiled_part
from prism_sim.cluster.state import HEAP_SIZE, Net, to_int64


@compiled_part
def push(net: Net, e: int) -> None:
    """Add entity ``e`` with its present ``end_ns``."""
    place = net.counters[HEAP_SIZE]
    net.counters[HEAP_SIZE] = place + 1
    _settle(net, e, net.entity[e]["end_ns"], place)


@compiled_part
def pop(net: Net) -> int:
    """Remove and return the entity that ends first."""
    first: int = net.heap[0]
    last = net.counters[HEAP_SIZE] - 1
    net.counters[HEAP_SIZE] = last
    if last > 0:
        _settle(net, to_int64(net.heap[last]), net.heap_ns[last], to_int64(0))
    return first


@compiled_part
def sift(net: Net, e: int) -> None:
    """Restore the order around entity ``e``, whose end has changed."""
    _settle(net, e, net.entity[e]["end_ns"], to_int64(net.entity[e]["place"]))


@compiled_part
def _settle(net: Net, e: int, end_ns: int, i: int) -> None:
    """Put ``e``, which ends at ``end_ns``, at place ``i``, or where it belongs above or below."""
    while i > 0:
        above = (i - 1) // 2
        if net.heap_ns[above] <= end_ns:
            break
        _put(net, net.heap[above], net.heap_ns[above], i)
        i = above
    size = net.counters[HEAP_SIZE]
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size:
            child += net.heap_ns[child + 1] < net.heap_ns[child]
        if net.heap_ns[child] >= end_ns:
            break
        _put(net, net.heap[child], net.heap_ns[child], i)
        i = child
    _put(net, e, end_ns, i)


@compiled_part
def _put(net: Net, e: int, end_ns: int, place: int) -> None:
    net.heap[place] = e
    net.heap_ns[place] = end_ns
    net.entity[e]["place"] = place
