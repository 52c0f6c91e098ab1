"""The rates of the hops of a coupled entity, and a log of these rates.

All hops of a coupled entity (for example, a ring) have one mean rate, its *pace*, but a hop need
not send evenly. If its links have free capacity, it sends a chunk faster and then waits for the
next chunk. The rate of a hop while it sends is its *burst rate*. On each link, the free capacity is
divided so that all hops together never exceed the capacity, even if all send at the same time:

    burst rate of a hop on a link = max(its pace, level)
    sum over hops of max(pace, level) = capacity - rates of single flows

A hop sends at the lowest burst rate of its links. If it is alone on its links, its burst rate is
the line rate. Hops that share a full link send at their pace and never wait.

Burst rates and paces change when other entities start or end. Each change adds a row to the
entity's log: ``previous row, time [ns], pace, burst rate of each hop [bytes/ns]``. The code that
started the entity reads the log at its end and frees the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.maxmin import NOTHING
from prism_sim.cluster.state import (
    FREE_LOG,
    N_TOUCHED,
    NO_LOG,
    ROW_HEAD,
    SETTLES,
    USED_LOG,
    Net,
    size_class,
)

UNCHANGED = 1e-9
"""Rates that differ by a smaller fraction are equal, up to rounding."""


@compiled_part
def log_changes(net: Net, now: int) -> None:
    """Add a row to the log of every coupled entity that this instant affected."""
    net.counters[SETTLES] += 1
    for i in range(net.counters[N_TOUCHED]):
        e = net.touched[i]
        net.entity[e]["touched"] = 0
        if net.entity[e]["hops"] > 0:
            _log(net, e, now)
    net.counters[N_TOUCHED] = 0


@compiled_part
def _log(net: Net, e: int, now: int) -> None:
    """Add one row to the log of ``e``, unless it equals the last row."""
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
    """Burst rate of ``hop`` [bytes/ns]."""
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
    """The level of link ``at``; see the docstring of the module."""
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
    """Capacity that single flows and hops above ``level`` leave, and the number of other hops."""
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
    """Read the log whose newest row is ``last``, and free its rows.

    Returns
    -------
    since_ns, pace, burst : begin of each row [ns], shape (rows,); the pace, shape (rows,), and
        the burst rate of each hop, shape (rows, hops) [bytes/ns].
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
