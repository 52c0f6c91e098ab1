"""The choice of one path among several, when a transfer begins.

A template may have no links of its own, but several *paths*, each a template with links. A transfer
takes one of them when it begins, and keeps it. After a transfer that has just ended it takes the
same path again; after a longer silence it chooses again, either the least loaded path or by a hash.

The load of a path is the sum over its links of the transfers on the link, divided by its rate: that
is in proportion to the time that a byte would wait in their queues. Of equally loaded paths, a hash
decides, since connections that all take the first one would meet there.
"""

from __future__ import annotations

import numpy as np

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.state import Int32s, Net, to_int64

_PRIME = 2**31 - 1
SAME = 1 - 1e-9
"""Loads that differ by a smaller fraction are equal, up to rounding."""


@compiled_part
def choose(net: Net, template: int, now: int) -> int:
    """The template whose links a transfer of ``template`` uses that begins ``now``."""
    choice = net.choice[template]
    if choice["paths"] == 0:
        return template
    silent = choice["active"] == 0 and now - choice["busy_ns"] >= choice["silent_ns"]
    if choice["chosen"] == 0 or silent or net.choice[choice["last"]]["closed"]:
        begin = _hashed(choice["key"], to_int64(choice["chosen"]), to_int64(choice["paths"]))
        choice["last"] = _best(net, template, begin)
        choice["chosen"] += 1
    choice["active"] += 1
    last: int = choice["last"]
    return last


@compiled_part
def _best(net: Net, template: int, begin: int) -> int:
    """The first open path from ``begin`` on, or the least loaded one."""
    choice = net.choice[template]
    idle = _common_load(net, choice["first"], choice["paths"]) if choice["by_load"] else 0.0
    best, least = to_int64(choice["last"]), np.inf
    for i in range(choice["paths"]):
        path = choice["first"] + (begin + i) % choice["paths"]
        if net.choice[path]["closed"]:
            continue
        load = _load(net, path, least) if choice["by_load"] else 0.0
        if least == np.inf or load < least * SAME:
            best, least = path, load
        if least <= idle / SAME:  # no other path can have a smaller load
            break
    return best


@compiled_part
def _common_load(net: Net, first: int, paths: int) -> float:
    """The load of the links that all paths have: those that the first and the last have."""
    load, other = 0.0, net.ptr[first + paths - 1] - net.ptr[first]
    for i in range(net.ptr[first], net.ptr[first] + net.uses[first]):
        at = net.via[i]["link"]
        if paths == 1 or net.via[i + other]["link"] == at:
            load += net.link[at]["held"] / max(net.link[at]["capacity"], 1e-12)
    return load


@compiled_part
def _load(net: Net, path: int, least: float) -> float:
    """The load of ``path``, as far as it is not above ``least``."""
    load = 0.0
    for i in range(net.ptr[path], net.ptr[path] + net.uses[path]):
        link = net.link[net.via[i]["link"]]
        load += link["held"] / max(link["capacity"], 1e-12)
        if load > least:
            break
    return load


@compiled_part
def _hashed(key: int, number: int, paths: int) -> int:
    """A place among ``paths``: rounds of Park and Miller's generator, and shifts between them."""
    state = (key + number * 69_621) % _PRIME
    for _ in range(3):
        state = (state * 48_271 + 1) % _PRIME
        state ^= state >> 15
    return state % paths


@compiled_part
def note_end(net: Net, template: int, now_ns: int) -> None:
    """Note that a transfer over the path ``template`` ended."""
    of = net.choice[template]["of"]
    if of >= 0:
        net.choice[of]["active"] -= 1
        net.choice[of]["busy_ns"] = now_ns


@compiled_part
def path_number(net: Net, template: int) -> int:
    """Number of the path ``template`` among those of its connection, from 1; 0 for any other."""
    of = net.choice[template]["of"]
    return 0 if of < 0 else template - net.choice[of]["first"] + 1


@compiled
def choose_each(net: Net, templates: Int32s, now: int) -> Int32s:
    """The paths of transfers that begin together, each aware of those before it.

    They count as loads until :func:`release` is called.
    """
    chosen = np.empty(len(templates), np.int32)
    for i in range(len(templates)):
        chosen[i] = choose(net, templates[i], now)
        _hold(net, chosen[i], 1.0)
    return chosen


@compiled
def release(net: Net, chosen: Int32s) -> None:
    """Count the transfers of :func:`choose_each` as loads no more; their entities have begun."""
    for i in range(len(chosen)):
        _hold(net, chosen[i], -1.0)


@compiled_part
def _hold(net: Net, path: int, times: float) -> None:
    for i in range(net.ptr[path], net.ptr[path] + net.uses[path]):
        net.link[net.via[i]["link"]]["held"] += times


@compiled
def end_each(net: Net, chosen: Int32s, now: int) -> None:
    """Note the end of transfers whose paths :func:`choose_each` chose."""
    for i in range(len(chosen)):
        note_end(net, chosen[i], now)


@compiled
def join_hops(net: Net, template: int, hops: Int32s) -> None:
    """Let the coupled ``template``, which no entity uses, send over ``hops``, each a template.

    Each has as many links as the one in its place before.
    """
    first = net.hop_ptr[template]
    begin, n = net.hop_link_ptr[first], 0
    for i in range(len(hops)):
        at = net.ptr[hops[i]]
        for via in net.via[at : at + net.uses[hops[i]]]:
            net.hop_link[begin + n] = via["link"]
            net.hop_weight[begin + n] = via["weight"]
            n += 1
    links = net.hop_link[begin : begin + n]
    count, last, at = 0, -1, net.ptr[template]
    for i in np.argsort(links, kind="mergesort"):
        if links[i] != last:
            last = links[i]
            net.via[at + count]["link"] = last
            net.via[at + count]["weight"] = 0.0
            count += 1
        net.via[at + count - 1]["weight"] += net.hop_weight[begin + i]
    net.uses[template] = count
