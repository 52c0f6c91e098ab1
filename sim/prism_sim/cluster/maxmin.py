"""Weighted max-min fair rates of all entities, updated at every change.

Rates (bytes per nanosecond and hop) are max-min fair under

    for every link:    sum over entities of weight * rate <= capacity
    for every entity:  rate <= cap

A change (start, end, capacity) can only affect entities that share a link with it, directly or
through others. The links with a change are *seeds*. :func:`solve` grows them to whole connected
components and computes the rates of these components again. The rates and predicted ends of all
other entities stay the same.

Reference: Bertsekas and Gallager, Data Networks (1992), section 6.5.2 (progressive
filling); with the weights, each hop of a coupled entity counts.
"""

from __future__ import annotations

import numpy as np

from prism_common.compiled import compiled_part
from prism_sim.cluster.heap import sift
from prism_sim.cluster.history import note_room
from prism_sim.cluster.state import MARK, N_SEEDS, N_TOUCHED, NEVER, Net, to_int64

NOTHING = 1e-9
"""A smaller weight counts as zero: weights are whole numbers that are added and subtracted."""
SAME = 1.0 + 1e-12
"""Levels that differ by less are equal, up to rounding."""


@compiled_part
def uses_of(net: Net, e: int) -> range:
    """The uses of entity ``e``."""
    template = net.entity[e]["template"]
    count = net.ptr[template + 1] - net.ptr[template]
    return range(net.entity[e]["block"], net.entity[e]["block"] + count)


@compiled_part
def seed(net: Net, at: int) -> None:
    """Mark link ``at`` as changed, once."""
    if net.link[at]["mark"] != net.counters[MARK]:
        net.link[at]["mark"] = net.counters[MARK]
        net.links[net.counters[N_SEEDS]] = at
        net.counters[N_SEEDS] += 1


@compiled_part
def seed_links_of(net: Net, e: int) -> None:
    """Mark every link of entity ``e`` as changed."""
    for u in uses_of(net, e):
        seed(net, net.use[u]["link"])


@compiled_part
def solve(net: Net, now: int) -> None:
    """Compute the rates from ``now`` on of all entities that the seeds reach."""
    n_open = _component(net, now)
    n_links = net.counters[N_SEEDS]
    while n_open > 0:
        n_links, level = _lowest_link(net, n_links)
        cap = _lowest_cap(net, n_open)
        if cap <= level:
            _fix_capped(net, n_open, cap, now)
        else:
            _fix_on_full_links(net, n_links, level, now)
        n_open = _still_open(net, n_open)
    net.counters[N_SEEDS] = 0
    net.counters[MARK] += 1


@compiled_part
def _component(net: Net, now: int) -> int:
    """Grow the seeds to whole components; return the number of entities in ``found``."""
    n_found = 0
    i = 0
    while i < net.counters[N_SEEDS]:
        at = net.links[i]
        note_room(net, at, now)
        weight = 0.0
        u = net.link[at]["first"]
        while u >= 0:
            weight += net.use[u]["weight"]
            e = net.use[u]["entity"]
            if net.entity[e]["mark"] != net.counters[MARK]:
                net.entity[e]["mark"] = net.counters[MARK]
                net.entity[e]["open"] = 1
                net.found[n_found] = e
                n_found += 1
                if net.entity[e]["hops"] > 0 and net.entity[e]["touched"] == 0:
                    net.entity[e]["touched"] = 1
                    net.touched[net.counters[N_TOUCHED]] = e
                    net.counters[N_TOUCHED] += 1
                seed_links_of(net, e)
            u = net.use[u]["next"]
        net.link[at]["weight"] = weight
        net.link[at]["left"] = net.link[at]["capacity"]
        i += 1
    return n_found


@compiled_part
def _lowest_link(net: Net, n_links: int) -> tuple[int, float]:
    """Drop links without open entities; return the number of others, and the lowest level."""
    kept = 0
    level = np.inf
    for i in range(n_links):
        at = net.links[i]
        if net.link[at]["weight"] > NOTHING:
            net.links[kept] = at
            kept += 1
            level = min(level, _level(net, at))
    return kept, level


@compiled_part
def _level(net: Net, at: int) -> float:
    """The rate at which link ``at`` would be full."""
    level: float = max(net.link[at]["left"], 0.0) / net.link[at]["weight"]
    return level


@compiled_part
def _lowest_cap(net: Net, n_open: int) -> float:
    cap = np.inf
    for i in range(n_open):
        cap = min(cap, net.entity[net.found[i]]["cap"])
    return cap


@compiled_part
def _fix_capped(net: Net, n_open: int, cap: float, now: int) -> None:
    for i in range(n_open):
        if net.entity[net.found[i]]["cap"] <= cap * SAME:
            _fix(net, net.found[i], cap, now)


@compiled_part
def _fix_on_full_links(net: Net, n_links: int, level: float, now: int) -> None:
    for i in range(n_links):
        at = net.links[i]
        if net.link[at]["weight"] > NOTHING and _level(net, at) <= level * SAME:
            u = net.link[at]["first"]
            while u >= 0:
                if net.entity[net.use[u]["entity"]]["open"]:
                    _fix(net, net.use[u]["entity"], level, now)
                u = net.use[u]["next"]


@compiled_part
def _fix(net: Net, e: int, rate: float, now: int) -> None:
    """Fix the rate of ``e`` and subtract its share from its links."""
    net.entity[e]["open"] = 0
    for u in uses_of(net, e):
        at = net.use[u]["link"]
        net.link[at]["left"] -= net.use[u]["weight"] * rate
        net.link[at]["weight"] -= net.use[u]["weight"]
    if rate != net.entity[e]["rate"]:
        _change_rate(net, e, rate, now)


@compiled_part
def _change_rate(net: Net, e: int, rate: float, now: int) -> None:
    """Update the bytes that ``e`` has sent, and predict its end at the new rate."""
    net.entity[e]["left_bytes"] -= net.entity[e]["rate"] * (now - net.entity[e]["since_ns"])
    net.entity[e]["since_ns"] = now
    net.entity[e]["rate"] = rate
    if rate <= 0.0:
        net.entity[e]["end_ns"] = NEVER
    else:
        # The clock has a resolution of 1 ns; a tolerance of 1e-6 ns absorbs rounding of exact ends.
        wait = np.ceil(max(net.entity[e]["left_bytes"], 0.0) / rate - 1e-6)
        net.entity[e]["end_ns"] = now + to_int64(max(wait, 0.0))
    sift(net, to_int64(e))


@compiled_part
def _still_open(net: Net, n_open: int) -> int:
    kept = 0
    for i in range(n_open):
        if net.entity[net.found[i]]["open"]:
            net.found[kept] = net.found[i]
            kept += 1
    return kept
