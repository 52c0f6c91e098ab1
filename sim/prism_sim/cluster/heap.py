"""A binary heap of the entities in order of their predicted end.

Ends change with the rates, so each entity stores its own ``place`` in the heap.
"""

from __future__ import annotations

from prism_common.compiled import compiled_part
from prism_sim.cluster.state import HEAP_SIZE, Net, to_int64


@compiled_part
def push(net: Net, e: int) -> None:
    """Add entity ``e`` with its present ``end_ns``."""
    place = net.counters[HEAP_SIZE]
    net.counters[HEAP_SIZE] = place + 1
    _put(net, e, place)
    sift(net, e)


@compiled_part
def pop(net: Net) -> int:
    """Remove and return the entity that ends first."""
    first: int = net.heap[0]
    last = net.counters[HEAP_SIZE] - 1
    net.counters[HEAP_SIZE] = last
    if last > 0:
        moved = to_int64(net.heap[last])
        _put(net, moved, to_int64(0))
        sift(net, moved)
    return first


@compiled_part
def sift(net: Net, e: int) -> None:
    """Restore the order around entity ``e``, whose end has changed."""
    end_ns = net.entity[e]["end_ns"]
    i = to_int64(net.entity[e]["place"])
    while i > 0:
        above = to_int64(net.heap[(i - 1) // 2])
        if net.entity[above]["end_ns"] <= end_ns:
            break
        _put(net, above, i)
        i = (i - 1) // 2
    size = net.counters[HEAP_SIZE]
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size:
            right = net.heap[child + 1]
            child += net.entity[right]["end_ns"] < net.entity[net.heap[child]]["end_ns"]
        below = to_int64(net.heap[child])
        if net.entity[below]["end_ns"] >= end_ns:
            break
        _put(net, below, i)
        i = child
    _put(net, e, i)


@compiled_part
def _put(net: Net, e: int, place: int) -> None:
    net.heap[place] = e
    net.entity[e]["place"] = place
