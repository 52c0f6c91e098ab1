"""How fast the hops of a coupled entity may send, and a log of it over the entity's life.

All hops of a coupled entity (a ring, say) move at one pace on average, but a hop need not send
evenly: where its links have room, it sends a chunk faster and then waits for the next. What a
hop may use is its *burst rate*. On each link, the room that others leave is divided so that
all hops together never exceed the capacity, whichever of them send at the moment:

    burst rate of a hop on a link = max(its pace, level)
    sum over hops of max(pace, level) = capacity - rates of single flows

A hop sends at the lowest of its links' burst rates. One that has its links to itself bursts at
line rate; hops that share a full link send at their pace and have no time to wait.

Burst rates and paces change when neighbours come and go. Each change adds a row to the
entity's log: ``previous row, time [ns], pace, burst rate of each hop [bytes/ns]``. Whoever
started the entity reads the log when it has ended, and gives the rows back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.compiled import compiled, compiled_part
from llmprism.numerics.early import compile_early
from prism_sim.cluster.maxmin import NOTHING
from prism_sim.cluster.state import (
    FREE_LOG,
    N_TOUCHED,
    NO_LOG,
    ROW_HEAD,
    SETTLES,
    USED_LOG,
    Net,
    example_net,
    size_class,
)

UNCHANGED = 1e-9
"""Rates closer than this fraction are one: roundings of the same quotient."""


@compiled_part
def log_changes(net: Net, now: int) -> None:
    """Add to the log of every coupled entity whose surroundings changed in this instant."""
    net.counters[SETTLES] += 1
    for i in range(net.counters[N_TOUCHED]):
        e = net.touched[i]
        net.entity[e]["touched"] = 0
        if net.entity[e]["hops"] > 0:
            _log(net, e, now)
    net.counters[N_TOUCHED] = 0


@compiled_part
def _log(net: Net, e: int, now: int) -> None:
    """Add one row to the log of ``e``, unless it would repeat the last one."""
    hops = net.entity[e]["hops"]
    last = net.entity[e]["log"]
    row = _take_row(net, hops)
    net.log[row] = last
    net.log[row + 1] = now
    net.log[row + 2] = net.entity[e]["rate"]
    first = net.hop_ptr[net.entity[e]["template"]]
    for i in range(hops):
        net.log[row + ROW_HEAD + i] = _burst_rate(net, first + i, net.entity[e]["rate"])
    if last != NO_LOG and _same(net, row, last, hops):
        _free_row(net, row, hops)
    else:
        net.entity[e]["log"] = row


@compiled_part
def _same(net: Net, row: int, last: int, hops: int) -> bool:
    for i in range(2, ROW_HEAD + hops):
        if abs(net.log[row + i] - net.log[last + i]) > UNCHANGED * net.log[last + i]:
            return False
    return True


@compiled_part
def _burst_rate(net: Net, hop: int, pace: float) -> float:
    """What ``hop`` may send at while it sends [bytes/ns]."""
    rate = np.inf
    for i in range(net.hop_link_ptr[hop], net.hop_link_ptr[hop + 1]):
        at = net.hop_link[i]
        if net.link[at]["settled"] != net.counters[SETTLES]:
            net.link[at]["settled"] = net.counters[SETTLES]
            net.link[at]["level"] = _level(net, at)
        rate = min(rate, max(pace, net.link[at]["level"]))
    return rate


@compiled_part
def _level(net: Net, at: int) -> float:
    """The level up to which hops on link ``at`` may send; see the module's text."""
    room, weight = _room(net, at, np.inf)
    level = room / weight
    while True:
        room, weight = _room(net, at, level)
        if weight <= NOTHING or room / weight >= level * (1 - UNCHANGED):
            break
        level = room / weight
    return max(level, 0.0)


@compiled_part
def _room(net: Net, at: int, level: float) -> tuple[float, float]:
    """What single flows and hops above ``level`` leave of a link, and how many hops share it."""
    room, weight = net.link[at]["capacity"], 0.0
    u = net.link[at]["first"]
    while u >= 0:
        entity = net.entity[net.use[u]["entity"]]
        if entity["hops"] > 0 and entity["rate"] <= level:
            weight += net.use[u]["weight"]
        else:
            room -= net.use[u]["weight"] * entity["rate"]
        u = net.use[u]["next"]
    return room, weight


@compiled_part
def _take_row(net: Net, hops: int) -> int:
    size = size_class(ROW_HEAD + hops)
    row: int = net.counters[FREE_LOG + size]
    if row != NO_LOG:
        net.counters[FREE_LOG + size] = int(net.log[row])
    else:
        row = net.counters[USED_LOG]
        net.counters[USED_LOG] += 1 << size
    return row


@compiled_part
def _free_row(net: Net, row: int, hops: int) -> None:
    size = size_class(ROW_HEAD + hops)
    net.log[row] = net.counters[FREE_LOG + size]
    net.counters[FREE_LOG + size] = row


@compiled
def take_log(
    net: Net, last: int, hops: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Read a log whose newest row is ``last``, and give its rows back.

    Returns
    -------
    since_ns, pace, burst : from when on each row holds, shape (rows,); the pace, shape
        (rows,), and the burst rate of each hop, shape (rows, hops) [bytes/ns].
    """
    count, row = 0, last
    while row != NO_LOG:
        count += 1
        row = int(net.log[row])
    since_ns, pace, burst = np.empty(count), np.empty(count), np.empty((count, hops))
    row = last
    for i in range(count - 1, -1, -1):
        since_ns[i], pace[i] = net.log[row + 1], net.log[row + 2]
        for hop in range(hops):
            burst[i, hop] = net.log[row + ROW_HEAD + hop]
        before = int(net.log[row])
        _free_row(net, row, hops)
        row = before
    return since_ns, pace, burst


compile_early(take_log, lambda: (example_net(), 0, 0))
