"""Entities enter the fabric, send bytes, and end.

Time is an integer count of nanoseconds. All changes of one instant are made together, and
the rates are computed once for all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.bucket import take_tokens
from prism_sim.cluster.heap import pop, push, sift
from prism_sim.cluster.maxmin import seed, seed_links_of, solve, uses_of
from prism_sim.cluster.pace import log_changes
from prism_sim.cluster.state import (
    ACTIVE_LOG,
    FREE_BLOCK,
    FREE_ENTITY,
    HEAP_SIZE,
    N_SEEDS,
    NEVER,
    NO_LOG,
    ROW_HEAD,
    USED_LOG,
    USED_USES,
    Array,
    Int32s,
    Int64s,
    Net,
    size_class,
)

START = np.dtype([("bytes", "i8"), ("cap", "f8"), ("bundle", "i4"), ("batch", "i4")])
BATCH = np.dtype([("start_ns", "i8"), ("open", "i4")])
RECORD = np.dtype([("start_ns", "i8"), ("end_ns", "i8"), ("bytes", "i8"), ("route", "i4")])


@compiled
def advance(
    net: Net,
    start: Array,
    n_start: int,
    bundle_ptr: Int64s,
    bundle: Int32s,
    touched: Int32s,
    n_touched: int,
    shown: Int32s,
    batch: Array,
    record: Array,
    n_record: int,
    done: Int64s,
    now: int,
) -> tuple[int, int, int, int, int, int]:
    """Make all changes of the instant ``now`` at once.

    The bundles of the ``n_start`` rows of ``start`` enter, links ``touched`` (whose
    capacity was set) count as changed, and entities that are due by ``now`` end. If the template of
    such an entity is ``shown``, its record is written after the ``n_record`` existing ones. Its
    batch then waits for one entity less. Batches that wait for none are the rows of ``done``:
    their number, start, end, and the log of the entity that ended last.

    Returns
    -------
    next_ns : time of the next end.
    n_record, n_done, n_active, n_uses, n_log : numbers of records, done batches, entities, uses
        (with free blocks) and numbers in logs (with one more row for each entity).
    """
    n_done = 0
    for k in range(n_touched):
        seed(net, touched[k])
    for k in range(n_start):
        row = start[k]
        begin, end = bundle_ptr[row["bundle"]], bundle_ptr[row["bundle"] + 1]
        batch[row["batch"]]["start_ns"] = now
        batch[row["batch"]]["open"] = end - begin
        for i in range(begin, end):
            enter(net, place(net, bundle[i], row["bytes"], row["cap"], row["batch"], now), now)
    while True:
        while net.counters[HEAP_SIZE] > 0 and net.entity[net.heap[0]]["end_ns"] <= now:
            e = leave(net)
            entity = net.entity[e]
            if shown[entity["template"]] >= 0:
                record[n_record]["start_ns"] = entity["start_ns"]
                record[n_record]["end_ns"] = entity["end_ns"]
                record[n_record]["bytes"] = entity["size_bytes"]
                record[n_record]["route"] = shown[entity["template"]]
                n_record += 1
            b = entity["owner"]
            batch[b]["open"] -= 1
            if batch[b]["open"] == 0:
                done[n_done, 0] = b
                done[n_done, 1] = batch[b]["start_ns"]
                done[n_done, 2] = entity["end_ns"]
                done[n_done, 3] = entity["log"]
                n_done += 1
        if net.counters[N_SEEDS] == 0:
            break
        solve(net, now)
    log_changes(net, now)
    n_active, n_uses = net.counters[HEAP_SIZE], net.counters[USED_USES]
    n_log = net.counters[USED_LOG] + net.counters[ACTIVE_LOG]
    return next_end(net), n_record, n_done, n_active, n_uses, n_log


@compiled_part
def next_end(net: Net) -> int:
    """Time of the next end of an entity, or NEVER."""
    end_ns: int = net.entity[net.heap[0]]["end_ns"] if net.counters[HEAP_SIZE] > 0 else NEVER
    return end_ns


@compiled_part
def place(net: Net, template: int, size_bytes: int, cap: float, owner: int, due_ns: int) -> int:
    """Give a new entity a place and the end ``due_ns``; it uses no link yet."""
    e: int = net.counters[FREE_ENTITY]
    net.counters[FREE_ENTITY] = net.entity[e]["next"]
    net.entity[e]["template"] = template
    net.entity[e]["owner"] = owner
    net.entity[e]["cap"] = cap
    net.entity[e]["size_bytes"] = size_bytes
    net.entity[e]["left_bytes"] = size_bytes
    net.entity[e]["rate"] = 0.0
    net.entity[e]["block"] = -1
    net.entity[e]["end_ns"] = due_ns
    push(net, e)
    return e


@compiled_part
def enter(net: Net, e: int, now: int) -> None:
    """Put entity ``e`` on the links of its template."""
    template = net.entity[e]["template"]
    begin = net.ptr[template]
    block = _take_block(net, net.ptr[template + 1] - begin)
    net.entity[e]["block"] = block
    hops = net.hop_ptr[template + 1] - net.hop_ptr[template]
    net.entity[e]["hops"] = hops
    net.entity[e]["log"] = NO_LOG
    net.entity[e]["touched"] = 0
    if hops > 0:
        net.counters[ACTIVE_LOG] += 1 << size_class(ROW_HEAD + hops)
    net.entity[e]["start_ns"] = now
    net.entity[e]["since_ns"] = now
    net.entity[e]["end_ns"] = NEVER if net.entity[e]["size_bytes"] > 0 else now
    sift(net, e)
    for u in uses_of(net, e):
        at = net.via[begin + u - block]["link"]
        first = net.link[at]["first"]
        net.use[u]["entity"] = e
        net.use[u]["link"] = at
        net.use[u]["weight"] = net.via[begin + u - block]["weight"]
        net.use[u]["prev"] = -1
        net.use[u]["next"] = first
        if first >= 0:
            net.use[first]["prev"] = u
        net.link[at]["first"] = u
        seed(net, at)
    if hops == 0:
        net.entity[e]["left_bytes"] -= take_tokens(net, e, now)
        if net.entity[e]["left_bytes"] <= 0:
            net.entity[e]["end_ns"] = now
            sift(net, e)


@compiled_part
def leave(net: Net) -> int:
    """Remove and return the entity that ends first; its row is readable until it is used again."""
    e = pop(net)
    seed_links_of(net, e)
    for u in uses_of(net, e):
        before, after = net.use[u]["prev"], net.use[u]["next"]
        if before >= 0:
            net.use[before]["next"] = after
        else:
            net.link[net.use[u]["link"]]["first"] = after
        if after >= 0:
            net.use[after]["prev"] = before
    _free_block(net, e)
    if net.entity[e]["hops"] > 0:
        net.counters[ACTIVE_LOG] -= 1 << size_class(ROW_HEAD + net.entity[e]["hops"])
        net.entity[e]["hops"] = 0
    net.entity[e]["next"] = net.counters[FREE_ENTITY]
    net.counters[FREE_ENTITY] = e
    return e


@compiled_part
def _take_block(net: Net, count: int) -> int:
    """Begin of a block for ``count`` uses: a free block of the next power of two, or a new one."""
    size = size_class(count)
    block: int = net.counters[FREE_BLOCK + size]
    if block >= 0:
        net.counters[FREE_BLOCK + size] = net.use[block]["next"]
    else:
        block = net.counters[USED_USES]
        net.counters[USED_USES] += 1 << size
    return block


@compiled_part
def _free_block(net: Net, e: int) -> None:
    uses = uses_of(net, e)
    size = size_class(len(uses))
    net.use[uses.start]["next"] = net.counters[FREE_BLOCK + size]
    net.counters[FREE_BLOCK + size] = uses.start


@compiled
def run_program(
    net: Net,
    template: Int32s,
    size_bytes: Int64s,
    latency_ns: Int64s,
    waits_for: Int32s,
    after_ptr: Int64s,
    after: Int32s,
    end_ns: NDArray[np.int64],
) -> None:
    """Run flows that wait for each other to their end; see :mod:`prism_sim.cluster.program`.

    ``waits_for`` is decremented in place; ``end_ns`` receives the result.
    """
    for flow in range(len(template)):
        if waits_for[flow] == 0:
            place(net, template[flow], size_bytes[flow], np.inf, flow, latency_ns[flow])
    while net.counters[HEAP_SIZE] > 0 and next_end(net) < NEVER:
        now = next_end(net)
        while net.counters[HEAP_SIZE] > 0 and net.entity[net.heap[0]]["end_ns"] <= now:
            if net.entity[net.heap[0]]["block"] < 0:  # its latency has passed
                enter(net, net.heap[0], now)
                continue
            flow = net.entity[leave(net)]["owner"]
            end_ns[flow] = now
            for i in range(after_ptr[flow], after_ptr[flow + 1]):
                ready = after[i]
                waits_for[ready] -= 1
                if waits_for[ready] == 0:
                    due_ns = now + latency_ns[ready]
                    place(net, template[ready], size_bytes[ready], np.inf, ready, due_ns)
        if net.counters[N_SEEDS] > 0:
            solve(net, now)
