"""Entities enter the fabric, send bytes, and end.

Time is an integer count of nanoseconds. All changes of one instant are made together, and
the rates are computed once for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.bucket import take_tokens
from prism_sim.cluster.choosing import choose, note_end, path_number
from prism_sim.cluster.heap import pop, push, sift
from prism_sim.cluster.maxmin import seed, solve, uses_of
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
    USED_USES,
    Array,
    Int32s,
    Int64s,
    Net,
    size_class,
    to_int64,
)

START = np.dtype([("bytes", "i8"), ("cap", "f8"), ("bundle", "i4"), ("batch", "i4")])
"""A bundle that starts; if ``batch`` is negative, it is message ``~batch``."""
BATCH = np.dtype([("start_ns", "i8"), ("open", "i4")])
RECORD = np.dtype(
    [("start_ns", "i8"), ("end_ns", "i8"), ("bytes", "i8"), ("route", "i4"), ("path", "i4")]
)
"""A flow that ended; ``path`` counts those of its route from 1, and is 0 without a choice."""

N_START, N_TOUCHED_LINKS, N_RECORD, N_DONE, N_HANDLED = range(5)
"""Places in ``counts`` of :class:`Moves`: rows of its arrays, and of ``done`` that are handled."""


class Moves(NamedTuple):
    """The starts and ends of bundles in the present instant.

    ``start`` has the bundles that start, ``touched`` the links whose capacity was set. ``record``
    has the flows that ended. ``done`` has the batches that ended: number, start, end, and log of
    the entity that ended last. Bundle b has the templates ``bundle[bundle_ptr[b]:bundle_ptr[b +
    1]]``; ``need[b]`` limits its uses of links and the numbers in its logs. ``shown`` has the route
    of each template.
    """

    start: Array
    touched: Int32s
    record: Array
    batch: Array
    done: Int64s
    counts: Int64s
    bundle_ptr: Int64s
    bundle: Int32s
    need: Int64s
    shown: Int32s


@compiled_part
def advance(net: Net, moves: Moves, message: Array, now: int) -> None:
    """Make all changes of the instant ``now`` at once.

    Bundles enter, links with a new capacity count as changed, and entities that are due by ``now``
    end. If the template of such an entity is shown, its record is written. Its batch then waits for
    one entity less. Batches that wait for none are ``done``.
    """
    counts = moves.counts
    for k in range(counts[N_TOUCHED_LINKS]):
        seed(net, moves.touched[k])
    for k in range(counts[N_START]):
        row = moves.start[k]
        begin, end = moves.bundle_ptr[row["bundle"]], moves.bundle_ptr[row["bundle"] + 1]
        _open(moves, message, row["batch"], end - begin, now)
        for i in range(begin, end):
            template = choose(net, moves.bundle[i], now)
            e = place(net, template, row["bytes"], row["cap"], row["batch"], now)
            enter(net, e, now)
    counts[N_START] = counts[N_TOUCHED_LINKS] = counts[N_DONE] = counts[N_HANDLED] = 0
    while True:
        while net.counters[HEAP_SIZE] > 0 and net.heap_ns[0] <= now:
            _end(net, moves, message, leave(net))
        if net.counters[N_SEEDS] == 0:
            break
        solve(net, now)
    log_changes(net, now)


@compiled_part
def _open(moves: Moves, message: Array, batch: int, flows: int, now: int) -> None:
    if batch >= 0:
        moves.batch[batch]["start_ns"] = now
        moves.batch[batch]["open"] = flows
    else:
        message[~batch]["start_ns"] = now
        message[~batch]["open"] = flows


@compiled_part
def _end(net: Net, moves: Moves, message: Array, e: int) -> None:
    """Write the record of entity ``e``, which ended, and close its batch if it was the last."""
    entity, counts = net.entity[e], moves.counts
    route = moves.shown[entity["template"]]
    if route >= 0:
        record = moves.record[counts[N_RECORD]]
        record["start_ns"] = entity["start_ns"]
        record["end_ns"] = entity["end_ns"]
        record["bytes"] = entity["size_bytes"]
        record["route"] = route
        record["path"] = path_number(net, entity["template"])
        counts[N_RECORD] += 1
    batch = to_int64(entity["owner"])
    if batch >= 0:
        moves.batch[batch]["open"] -= 1
        left, start_ns = moves.batch[batch]["open"], moves.batch[batch]["start_ns"]
    else:
        message[~batch]["open"] -= 1
        left, start_ns = message[~batch]["open"], message[~batch]["start_ns"]
    if left == 0:
        done = counts[N_DONE]
        moves.done[done, 0] = batch
        moves.done[done, 1] = start_ns
        moves.done[done, 2] = entity["end_ns"]
        moves.done[done, 3] = entity["log"]
        counts[N_DONE] = done + 1


@compiled_part
def next_end(net: Net) -> int:
    """Time of the next end of an entity, or NEVER."""
    end_ns: int = net.heap_ns[0] if net.counters[HEAP_SIZE] > 0 else NEVER
    return end_ns


@compiled_part
def place(net: Net, template: int, size_bytes: int, cap: float, owner: int, due_ns: int) -> int:
    """Give a new entity a place and the end ``due_ns``; it uses no link yet."""
    e: int = net.counters[FREE_ENTITY]
    entity = net.entity[e]
    net.counters[FREE_ENTITY] = e + 1 + entity["next"]
    entity["template"] = template
    entity["owner"] = owner
    entity["cap"] = cap
    entity["size_bytes"] = size_bytes
    entity["left_bytes"] = size_bytes
    entity["rate"] = 0.0
    entity["block"] = -1
    entity["end_ns"] = due_ns
    push(net, e)
    return e


@compiled_part
def enter(net: Net, e: int, now: int) -> None:
    """Put entity ``e`` on the links of its template."""
    entity = net.entity[e]
    template = entity["template"]
    hops = net.hops[template]
    entity["hops"] = hops
    entity["log"] = NO_LOG
    entity["touched"] = 0
    if hops > 0:
        net.counters[ACTIVE_LOG] += 1 << size_class(ROW_HEAD + hops)
    entity["start_ns"] = now
    entity["since_ns"] = now
    entity["end_ns"] = NEVER if entity["size_bytes"] > 0 else now
    sift(net, e)
    _use_links(net, e)
    if hops == 0:
        entity["left_bytes"] -= take_tokens(net, e, now)
        if entity["left_bytes"] <= 0:
            entity["end_ns"] = now
            sift(net, e)


@compiled_part
def _use_links(net: Net, e: int) -> None:
    """Put ``e`` into the lists of the links of its template, as they are now."""
    entity = net.entity[e]
    template = entity["template"]
    begin, count = net.ptr[template], net.uses[template]
    block = _take_block(net, count)
    entity["block"] = block
    entity["uses"] = count
    for u in uses_of(net, e):
        via, use = net.via[begin + u - block], net.use[u]
        at = via["link"]
        first = net.link[at]["first"]
        use["entity"] = e
        use["link"] = at
        use["weight"] = via["weight"]
        use["prev"] = -1
        use["next"] = first
        if first >= 0:
            net.use[first]["prev"] = u
        net.link[at]["first"] = u
        net.link[at]["held"] += via["weight"]
        seed(net, at)


@compiled_part
def _leave_links(net: Net, e: int) -> None:
    """Take ``e`` out of the lists of its links."""
    for u in uses_of(net, e):
        use = net.use[u]
        before, after = use["prev"], use["next"]
        net.link[use["link"]]["held"] -= use["weight"]
        seed(net, use["link"])
        if before >= 0:
            net.use[before]["next"] = after
        else:
            net.link[use["link"]]["first"] = after
        if after >= 0:
            net.use[after]["prev"] = before
    _free_block(net, e)


@compiled
def renew_uses(net: Net, renewed: NDArray[np.bool_]) -> None:
    """Let the entities of the ``renewed`` templates use the present links of these."""
    for i in range(net.counters[HEAP_SIZE]):
        e = net.heap[i]
        if net.entity[e]["block"] >= 0 and renewed[net.entity[e]["template"]]:
            _leave_links(net, e)
            _use_links(net, e)


@compiled_part
def leave(net: Net) -> int:
    """Remove and return the entity that ends first; its row is readable until it is used again."""
    e = pop(net)
    entity = net.entity[e]
    _leave_links(net, e)
    note_end(net, entity["template"], entity["end_ns"])
    if entity["hops"] > 0:
        net.counters[ACTIVE_LOG] -= 1 << size_class(ROW_HEAD + entity["hops"])
        entity["hops"] = 0
    entity["next"] = net.counters[FREE_ENTITY] - e - 1
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
        while net.counters[HEAP_SIZE] > 0 and net.heap_ns[0] <= now:
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
