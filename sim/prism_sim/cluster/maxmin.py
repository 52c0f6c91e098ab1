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
"""A smaller weight counts as zero: weights are added and subtracted, and leave what was rounded."""
SAME = 1.0 + 1e-12
"""Levels that differ by less are equal, up to rounding."""


@compiled_part
def uses_of(net: Net, e: int) -> range:
    """The uses of entity ``e``."""
    entity = net.entity[e]
    return range(entity["block"], entity["block"] + entity["uses"])


@compiled_part
def seed(net: Net, at: int) -> None:
    """Mark link ``at`` as changed, once."""
    link, counters = net.link[at], net.counters
    if link["mark"] != counters[MARK]:
        link["mark"] = counters[MARK]
        net.links[counters[N_SEEDS]] = at
        counters[N_SEEDS] += 1


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
    counters, mark = net.counters, net.counters[MARK]
    n_found = 0
    i = 0
    while i < counters[N_SEEDS]:
        at = net.links[i]
        note_room(net, at, now)
        link = net.link[at]
        weight = 0.0
        u = link["first"]
        while u >= 0:
            use = net.use[u]
            weight += use["weight"]
            e = use["entity"]
            entity = net.entity[e]
            if entity["mark"] != mark:
                entity["mark"] = mark
                entity["open"] = 1
                net.found[n_found] = e
                n_found += 1
                if entity["hops"] > 0 and entity["touched"] == 0:
                    entity["touched"] = 1
                    net.touched[counters[N_TOUCHED]] = e
                    counters[N_TOUCHED] += 1
                seed_links_of(net, e)
            u = use["next"]
        link["weight"] = weight
        link["left"] = link["capacity"]
        i += 1
    return n_found


@compiled_part
def _lowest_link(net: Net, n_links: int) -> tuple[int, float]:
    """Drop links without open entities; return the number of others, and the lowest level."""
    kept = 0
    level = np.inf
    for i in range(n_links):
        at = net.links[i]
        link = net.link[at]
        if link["weight"] > NOTHING:
            net.links[kept] = at
            kept += 1
            link["full_at"] = max(link["left"], 0.0) / link["weight"]
            level = min(level, link["full_at"])
    return kept, level


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
        link = net.link[net.links[i]]
        if link["weight"] > NOTHING and link["full_at"] <= level * SAME:
            u = link["first"]
            while u >= 0:
                use = net.use[u]
                if net.entity[use["entity"]]["open"]:
                    _fix(net, use["entity"], level, now)
                u = use["next"]


@compiled_part
def _fix(net: Net, e: int, rate: float, now: int) -> None:
    """Fix the rate of ``e`` and subtract its share from its links."""
    entity = net.entity[e]
    entity["open"] = 0
    for u in uses_of(net, e):
        use = net.use[u]
        link = net.link[use["link"]]
        link["left"] -= use["weight"] * rate
        link["weight"] -= use["weight"]
        if link["weight"] > NOTHING:
            link["full_at"] = max(link["left"], 0.0) / link["weight"]
    if rate != entity["rate"]:
        _change_rate(net, e, rate, now)


@compiled_part
def _change_rate(net: Net, e: int, rate: float, now: int) -> None:
    """Update the bytes that ``e`` has sent, and predict its end at the new rate."""
    entity = net.entity[e]
    entity["left_bytes"] -= entity["rate"] * (now - entity["since_ns"])
    entity["since_ns"] = now
    entity["rate"] = rate
    if rate <= 0.0:
        entity["end_ns"] = NEVER
    else:
        # The clock has a resolution of 1 ns; a tolerance of 1e-6 ns absorbs rounding of exact ends.
        wait = np.ceil(max(entity["left_bytes"], 0.0) / rate - 1e-6)
        entity["end_ns"] = now + to_int64(max(wait, 0.0))
    sift(net, to_int64(e))


@compiled_part
def _still_open(net: Net, n_open: int) -> int:
    kept = 0
    for i in range(n_open):
        if net.entity[net.found[i]]["open"]:
            net.found[kept] = net.found[i]
            kept += 1
    return kept
