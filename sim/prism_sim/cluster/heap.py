"""The entities in order of their predicted end: a binary heap that knows everyone's place.

Ends move whenever rates do, so an entity is found in the heap by its own ``place``.
"""

from __future__ import annotations

from llmprism.numerics.compiled import compiled
from prism_sim.cluster.state import HEAP_SIZE, Net


@compiled
def push(net: Net, e: int) -> None:
    """Add entity ``e`` with its present ``end_ns``."""
    place = net.counters[HEAP_SIZE]
    net.counters[HEAP_SIZE] = place + 1
    _put(net, e, place)
    sift(net, place)


@compiled
def pop(net: Net) -> int:
    """Take out, and return, the entity that ends first."""
    first: int = net.heap[0]
    last = net.counters[HEAP_SIZE] - 1
    net.counters[HEAP_SIZE] = last
    if last > 0:
        _put(net, net.heap[last], 0)
        sift(net, 0)
    return first


@compiled
def sift(net: Net, place: int) -> None:
    """Restore the order around ``place``, whichever way the end there has moved."""
    e = net.heap[place]
    end_ns = net.entity[e]["end_ns"]
    i = place
    while i > 0 and end_ns < net.entity[net.heap[(i - 1) // 2]]["end_ns"]:
        _put(net, net.heap[(i - 1) // 2], i)
        i = (i - 1) // 2
    size = net.counters[HEAP_SIZE]
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size:
            right = net.heap[child + 1]
            child += net.entity[right]["end_ns"] < net.entity[net.heap[child]]["end_ns"]
        if net.entity[net.heap[child]]["end_ns"] >= end_ns:
            break
        _put(net, net.heap[child], i)
        i = child
    _put(net, e, i)


@compiled
def _put(net: Net, e: int, place: int) -> None:
    net.heap[place] = e
    net.entity[e]["place"] = place
