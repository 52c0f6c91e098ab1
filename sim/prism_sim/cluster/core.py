"""Who gets how much of which link: weighted max-min fairness, kept up to date event by event.

An *entity* is anything that moves bytes at one pace: a single flow, or a ring whose hops
are coupled. It uses links, each with a weight: how many of its hops run through that link.
Rates (bytes a nanosecond for one hop) are max-min fair under

    for every link:  sum over entities of weight * rate <= capacity
    for every entity:  rate <= cap

A change (arrival, departure, capacity) touches only the connected component of links and
entities around it; everything else keeps its rate and its predicted end. All state is in
a few record arrays, so that a compiled call costs little and memory is reused.

Time is an integer count of nanoseconds: what would end within the same nanosecond ends
together, which makes simultaneous events of symmetric flows one event.

References: progressive filling as in Bertsekas and Gallager, Data Networks (1992), 6.5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.compiled import compiled

NEVER = 2**62
"""An end that is not in sight: the entity moves no bytes."""

ENTITY = np.dtype(
    [
        ("left_bytes", "f8"),  # per hop, as of `since_ns`
        ("rate", "f8"),  # bytes per ns and hop
        ("cap", "f8"),
        ("since_ns", "i8"),
        ("start_ns", "i8"),
        ("end_ns", "i8"),  # predicted at the present rate
        ("size_bytes", "i8"),
        ("template", "i4"),
        ("batch", "i4"),
        ("block", "i4"),  # first of its uses
        ("heap", "i4"),  # place in the heap of ends
        ("mark", "i4"),
        ("frozen", "i4"),
        ("next", "i4"),  # free list
    ]
)
LINK = np.dtype(
    [("capacity", "f8"), ("left", "f8"), ("weight", "f8"), ("first", "i4"), ("mark", "i4")]
)
USE = np.dtype([("weight", "f8"), ("entity", "i4"), ("link", "i4"), ("next", "i4"), ("prev", "i4")])
BATCH = np.dtype([("start_ns", "i8"), ("end_ns", "i8"), ("open", "i4")])
RECORD = np.dtype([("start_ns", "i8"), ("end_ns", "i8"), ("bytes", "i8"), ("route", "i4")])

# Slots of the small integer state.
N_HEAP, FREE_ENTITY, USED_USES, N_RECORDS, N_DONE, MARK, N_SEEDS = range(7)
FREE_BLOCK = 8  # ... and one free list for every power of two of uses
N_STATE = FREE_BLOCK + 32

Array = NDArray[np.void]
Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@compiled
def _heap_swap(entity: Array, heap: Int32s, i: int, j: int) -> None:
    heap[i], heap[j] = heap[j], heap[i]
    entity[heap[i]].heap = i
    entity[heap[j]].heap = j


@compiled
def _sift(entity: Array, heap: Int32s, size: int, place: int) -> None:
    """Restore heap order by end around ``place``, whichever way its key moved."""
    i = place
    while i > 0 and entity[heap[i]].end_ns < entity[heap[(i - 1) // 2]].end_ns:
        _heap_swap(entity, heap, i, (i - 1) // 2)
        i = (i - 1) // 2
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and entity[heap[child + 1]].end_ns < entity[heap[child]].end_ns:
            child += 1
        if entity[heap[child]].end_ns >= entity[heap[i]].end_ns:
            return
        _heap_swap(entity, heap, i, child)
        i = child


@compiled
def _block_class(count: int) -> int:
    size = 0
    while (1 << size) < count:
        size += 1
    return size


@compiled
def _take_block(use: Array, state: Int64s, count: int) -> int:
    size = _block_class(count)
    block = state[FREE_BLOCK + size]
    if block >= 0:
        state[FREE_BLOCK + size] = use[block].next
        return int(block)
    block = state[USED_USES]
    state[USED_USES] += 1 << size
    return int(block)


@compiled
def _insert(
    entity: Array, link: Array, use: Array, state: Int64s, e: int, ptr: Int64s, via: Array
) -> None:
    """Hang entity ``e`` on the links of its template; these links seed the next solve."""
    template = entity[e].template
    count = ptr[template + 1] - ptr[template]
    block = _take_block(use, state, count)
    entity[e].block = block
    for k in range(count):
        u = block + k
        at = via[ptr[template] + k].link
        use[u].entity = e
        use[u].link = at
        use[u].weight = via[ptr[template] + k].weight
        use[u].prev = -1
        use[u].next = link[at].first
        if link[at].first >= 0:
            use[link[at].first].prev = u
        link[at].first = u


@compiled
def _remove(entity: Array, link: Array, use: Array, state: Int64s, e: int, ptr: Int64s) -> None:
    template = entity[e].template
    count = ptr[template + 1] - ptr[template]
    block = entity[e].block
    for u in range(block, block + count):
        if use[u].prev >= 0:
            use[use[u].prev].next = use[u].next
        else:
            link[use[u].link].first = use[u].next
        if use[u].next >= 0:
            use[use[u].next].prev = use[u].prev
    size = _block_class(count)
    use[block].next = state[FREE_BLOCK + size]
    state[FREE_BLOCK + size] = block


@compiled
def _seed_links(
    entity: Array, link: Array, use: Array, state: Int64s, links: Int32s, e: int, ptr: Int64s
) -> None:
    """Mark the links of ``e`` as changed (each once)."""
    template = entity[e].template
    count = ptr[template + 1] - ptr[template]
    for u in range(entity[e].block, entity[e].block + count):
        _seed(link, state, links, use[u].link)


@compiled
def _seed(link: Array, state: Int64s, links: Int32s, at: int) -> None:
    if link[at].mark != state[MARK]:
        link[at].mark = state[MARK]
        links[state[N_SEEDS]] = at
        state[N_SEEDS] += 1


@compiled
def _component(
    entity: Array,
    link: Array,
    use: Array,
    state: Int64s,
    links: Int32s,
    found: Int32s,
    ptr: Int64s,
) -> int:
    """Grow the seeds to whole components; returns how many entities are in ``found``."""
    n_found = 0
    i = 0
    while i < state[N_SEEDS]:
        at = links[i]
        link[at].left = link[at].capacity
        weight = 0.0
        u = link[at].first
        while u >= 0:
            weight += use[u].weight
            e = use[u].entity
            if entity[e].mark != state[MARK]:
                entity[e].mark = state[MARK]
                entity[e].frozen = 0
                found[n_found] = e
                n_found += 1
                _seed_links(entity, link, use, state, links, e, ptr)
            u = use[u].next
        link[at].weight = weight
        i += 1
    return n_found


@compiled
def _settle(entity: Array, heap: Int32s, state: Int64s, e: int, rate: float, now: int) -> None:
    """Give ``e`` its new rate from ``now`` on, and its new predicted end."""
    if rate == entity[e].rate:
        return
    entity[e].left_bytes -= entity[e].rate * (now - entity[e].since_ns)
    entity[e].since_ns = now
    entity[e].rate = rate
    if rate <= 0.0:
        entity[e].end_ns = NEVER
    else:
        # A nanosecond is the clock's grain; 1e-6 of one forgives rounding of exact ends.
        wait = np.ceil(max(entity[e].left_bytes, 0.0) / rate - 1e-6)
        entity[e].end_ns = now + np.int64(max(wait, 0.0))
    _sift(entity, heap, state[N_HEAP], entity[e].heap)


@compiled
def _freeze(
    entity: Array,
    link: Array,
    use: Array,
    heap: Int32s,
    state: Int64s,
    e: int,
    rate: float,
    now: int,
    ptr: Int64s,
) -> None:
    """Fix the rate of ``e`` and take its share out of its links."""
    entity[e].frozen = 1
    template = entity[e].template
    count = ptr[template + 1] - ptr[template]
    for u in range(entity[e].block, entity[e].block + count):
        at = use[u].link
        link[at].left -= use[u].weight * rate
        link[at].weight -= use[u].weight
    _settle(entity, heap, state, e, rate, now)


@compiled
def _solve(
    entity: Array,
    link: Array,
    use: Array,
    heap: Int32s,
    state: Int64s,
    links: Int32s,
    found: Int32s,
    ptr: Int64s,
    now: int,
) -> None:
    """Progressive filling over the components that the seeds touch."""
    open_entities = _component(entity, link, use, state, links, found, ptr)
    open_links = state[N_SEEDS]
    while open_entities > 0:
        level = np.inf
        kept = 0
        for i in range(open_links):
            at = links[i]
            if link[at].weight > 1e-9:
                links[kept] = at
                kept += 1
                level = min(level, max(link[at].left, 0.0) / link[at].weight)
        open_links = kept
        capped = False
        for i in range(open_entities):
            if entity[found[i]].cap <= level:
                level = entity[found[i]].cap
                capped = True
        level_up = level * (1.0 + 1e-12)
        if capped:
            for i in range(open_entities):
                if entity[found[i]].cap <= level_up:
                    _freeze(entity, link, use, heap, state, found[i], level, now, ptr)
        else:
            for i in range(open_links):
                at = links[i]
                if link[at].weight > 1e-9 and max(link[at].left, 0.0) / link[at].weight <= level_up:
                    u = link[at].first
                    while u >= 0:
                        if entity[use[u].entity].frozen == 0:
                            _freeze(entity, link, use, heap, state, use[u].entity, level, now, ptr)
                        u = use[u].next
        kept = 0
        for i in range(open_entities):
            if entity[found[i]].frozen == 0:
                found[kept] = found[i]
                kept += 1
        open_entities = kept
    state[N_SEEDS] = 0
    state[MARK] += 1


@compiled
def _finish(
    entity: Array,
    link: Array,
    use: Array,
    batch: Array,
    record: Array,
    heap: Int32s,
    links: Int32s,
    done: Int32s,
    state: Int64s,
    ptr: Int64s,
    shown: Int32s,
) -> None:
    """Take the first entity off the heap: write its record, free its place, tell its batch."""
    e = heap[0]
    last = state[N_HEAP] - 1
    _heap_swap(entity, heap, 0, last)
    state[N_HEAP] = last
    if last > 0:
        _sift(entity, heap, last, 0)
    _seed_links(entity, link, use, state, links, e, ptr)
    _remove(entity, link, use, state, e, ptr)
    if shown[entity[e].template] >= 0:
        row = state[N_RECORDS]
        state[N_RECORDS] = row + 1
        record[row].start_ns = entity[e].start_ns
        record[row].end_ns = entity[e].end_ns
        record[row].bytes = entity[e].size_bytes
        record[row].route = shown[entity[e].template]
    b = entity[e].batch
    batch[b].open -= 1
    batch[b].end_ns = entity[e].end_ns
    if batch[b].open == 0:
        done[state[N_DONE]] = b
        state[N_DONE] += 1
    entity[e].next = state[FREE_ENTITY]
    state[FREE_ENTITY] = e


@compiled
def _begin(
    entity: Array,
    link: Array,
    use: Array,
    heap: Int32s,
    links: Int32s,
    state: Int64s,
    ptr: Int64s,
    via: Array,
    start: Array,
    k: int,
    now: int,
) -> None:
    """Put the ``k``-th of the waiting ``start`` rows into the fabric."""
    e = state[FREE_ENTITY]
    state[FREE_ENTITY] = entity[e].next
    entity[e].template = start[k].template
    entity[e].batch = start[k].batch
    entity[e].cap = start[k].cap
    entity[e].size_bytes = start[k].bytes
    entity[e].left_bytes = start[k].bytes
    entity[e].rate = 0.0
    entity[e].since_ns = now
    entity[e].start_ns = now
    entity[e].end_ns = NEVER if start[k].bytes > 0 else now
    size = state[N_HEAP]
    state[N_HEAP] = size + 1
    heap[size] = e
    entity[e].heap = size
    _sift(entity, heap, size + 1, size)
    _insert(entity, link, use, state, e, ptr, via)
    _seed_links(entity, link, use, state, links, e, ptr)


START = np.dtype([("bytes", "i8"), ("cap", "f8"), ("template", "i4"), ("batch", "i4")])
USES = np.dtype([("weight", "f8"), ("link", "i4")])


@compiled
def advance(
    entity: Array,
    link: Array,
    use: Array,
    batch: Array,
    record: Array,
    heap: Int32s,
    links: Int32s,
    found: Int32s,
    done: Int32s,
    state: Int64s,
    ptr: Int64s,
    via: Array,
    shown: Int32s,
    start: Array,
    n_start: int,
    touched: Int32s,
    n_touched: int,
    now: int,
) -> int:
    """Make all changes of the instant ``now`` at once; returns when the next entity ends [ns].

    Ends due by ``now`` come first, then the ``n_start`` rows of ``start`` begin, links
    ``touched`` (whose capacity was set) count as changed, and rates are solved once.
    Batches that became empty are listed in ``done``; their number is ``state[N_DONE]``.
    """
    state[N_DONE] = 0
    for k in range(n_touched):
        _seed(link, state, links, touched[k])
    for k in range(n_start):
        _begin(entity, link, use, heap, links, state, ptr, via, start, k, now)
    while True:
        while state[N_HEAP] > 0 and entity[heap[0]].end_ns <= now:
            _finish(entity, link, use, batch, record, heap, links, done, state, ptr, shown)
        if state[N_SEEDS] == 0:
            break
        _solve(entity, link, use, heap, state, links, found, ptr, now)
    next_ns: int = entity[heap[0]].end_ns if state[N_HEAP] > 0 else NEVER
    return next_ns
