"""Sequences: work that compiled code follows without Python, piece by piece.

A *sequence* is what one worker does in a stretch of its schedule. It is a list of *pieces*. Each
piece waits for a message in a *mailbox* if it needs one, then computes for its duration, and then
gives a message to a *queue* if its result is needed elsewhere. A queue sends its messages one after
the other, as a bundle of flows, and delivers each to a mailbox one latency after its last byte.

Compiled code (:mod:`prism_sim.cluster.ahead`) keeps the events of sequences in a heap of its own.
An event has a *turn*, which it takes from the same count as the events of SimPy. So both happen in
one order: by time, then by turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_common.compiled import compiled_part
from prism_sim.cluster.state import Array, Int32s, Int64s, to_int64
from prism_sim.truth import COMMUNICATIONS, CUT, NO_COMMUNICATION, ROWS

PIECE = np.dtype(
    [
        ("duration", "i4"),  # its place in the durations of the sequence
        ("awaits", "i4"),  # mailbox, counted from the first one of the sequence; -1: none
        ("mailbox", "i4"),  # of its message, counted from the first one of the receiver; -1: none
        ("queue", "i4"),  # of its message, counted from the first one of the sequence
        ("micro_batch", "i4"),
        ("span", "i4"),  # kinds of spans in the log: of the piece ...
        ("sent", "i4"),  # ... and of its message at the sender and the receiver; -1: not logged
        ("received", "i4"),
    ]
)
SEQUENCE = np.dtype(
    [
        ("duration_factor", "f8"),  # factor on durations
        ("stall_ns", "i8"),  # wait before the next piece, once
        ("begun_ns", "i8"),  # begin of the present piece
        ("step", "i8"),
        ("durations", "i8"),  # the first of its durations, and of the sizes of its messages
        ("sizes", "i8"),
        ("piece", "i4"),  # the present piece, and the one after the last
        ("stop", "i4"),
        ("state", "i4"),
        ("received", "i4"),  # whether the present piece has its message
        ("held", "i4"),  # whether the next piece must not begin
        ("mailboxes", "i4"),  # the first of its mailboxes, and of its queues
        ("queues", "i4"),
        ("number", "i4"),  # of its worker in the log
    ]
)
QUEUE = np.dtype(
    [
        ("latency_ns", "i8"),
        ("bundle", "i4"),
        ("mailboxes", "i4"),  # the first mailbox of the receiver
        ("sender", "i4"),  # numbers of the workers in the log
        ("receiver", "i4"),
        ("ranks", "i4"),  # of each worker
        ("first", "i4"),  # the messages that wait; -1: none
        ("last", "i4"),
        ("sending", "i4"),
    ]
)
MESSAGE = np.dtype(
    [
        ("bytes", "i8"),  # on each flow
        ("start_ns", "i8"),
        ("step", "i8"),
        ("micro_batch", "i4"),
        ("sent", "i4"),
        ("received", "i4"),
        ("mailbox", "i4"),
        ("queue", "i4"),
        ("open", "i4"),  # flows under way
        ("next", "i4"),  # in the queue, or in the list of free places
    ]
)
EVENT = np.dtype([("time_ns", "i8"), ("turn", "i8"), ("of", "i8")])
"""The end of a piece of sequence ``of``; if negative, an arrival in mailbox ``~of``."""

IDLE, COMPUTES, WAITS = range(3)
"""States of a sequence."""
NOBODY, PYTHON = -1, -2
"""In place of the sequence that waits at a mailbox."""
SPARE = 4
"""Free places of each array that an event fills, at least; an event fills at most two."""
N_EVENTS, FREE_MESSAGE, TURN = range(3)
"""Places in ``counts``: events in the heap, the first free message, and the last turn."""


class Sequences(NamedTuple):
    """All arrays of sequences that compiled code uses.

    ``arrived`` counts the messages in each mailbox, and ``waiter`` is who waits there. ``log``,
    ``tally`` and ``limit`` are those of :class:`~prism_sim.truth.LogRows`.
    """

    piece: Array
    sequence: Array
    duration_ns: NDArray[np.float64]
    size_bytes: Int64s
    arrived: Int32s
    waiter: Int32s
    queue: Array
    message: Array
    event: Array
    counts: Int64s
    log: Int64s
    tally: Int64s
    limit: Int64s


@compiled_part
def push_event(of: Sequences, time_ns: int, who: int) -> None:
    """Add an event with the next turn."""
    of.counts[TURN] += 1
    i = of.counts[N_EVENTS]
    of.counts[N_EVENTS] = i + 1
    while i > 0 and of.event[(i - 1) // 2]["time_ns"] > time_ns:
        _move(of.event, (i - 1) // 2, i)
        i = (i - 1) // 2
    of.event[i]["time_ns"] = time_ns
    of.event[i]["turn"] = of.counts[TURN]
    of.event[i]["of"] = who


@compiled_part
def pop_event(of: Sequences) -> int:
    """Remove the first event; return whose it is."""
    event = of.event
    who: int = event[0]["of"]
    size = of.counts[N_EVENTS] - 1
    of.counts[N_EVENTS] = size
    time_ns, turn = event[size]["time_ns"], event[size]["turn"]
    i = to_int64(0)
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _precedes(event, child + 1, child):
            child += 1
        child_ns = event[child]["time_ns"]
        if child_ns > time_ns or (child_ns == time_ns and event[child]["turn"] > turn):
            break
        _move(event, child, i)
        i = child
    _move(event, size, i)
    return who


@compiled_part
def _precedes(event: Array, a: int, b: int) -> bool:
    if event[a]["time_ns"] != event[b]["time_ns"]:
        return bool(event[a]["time_ns"] < event[b]["time_ns"])
    return bool(event[a]["turn"] < event[b]["turn"])


@compiled_part
def _move(event: Array, source: int, to: int) -> None:
    event[to]["time_ns"] = event[source]["time_ns"]
    event[to]["turn"] = event[source]["turn"]
    event[to]["of"] = event[source]["of"]


@compiled_part
def go_on(of: Sequences, s: int, now: int) -> bool:
    """Begin the present piece of sequence ``s``, or let it wait; return whether it stops here."""
    row = of.sequence[s]
    if row["piece"] == row["stop"]:
        row["state"] = IDLE
        return True
    piece = of.piece[row["piece"]]
    if piece["awaits"] >= 0 and not row["received"]:
        at = row["mailboxes"] + piece["awaits"]
        if of.arrived[at] == 0:
            of.waiter[at] = s
            row["state"] = WAITS
            return False
        of.arrived[at] -= 1
    row["received"] = 1
    if row["held"]:
        row["state"] = IDLE
        return True
    takes_ns = of.duration_ns[row["durations"] + piece["duration"]] * row["duration_factor"]
    wait_ns = to_int64(np.rint(takes_ns)) + row["stall_ns"]
    row["stall_ns"] = 0
    row["begun_ns"] = now
    row["received"] = 0
    row["state"] = COMPUTES
    push_event(of, now + wait_ns, s)
    return False


@compiled_part
def log_span(
    of: Sequences,
    worker: int,
    step: int,
    micro_batch: int,
    kind: int,
    communication: int,
    start_ns: int,
    end_ns: int,
) -> None:
    """Write one row of the log."""
    row = of.tally[ROWS]
    of.tally[ROWS] = row + 1
    of.log[row, 0] = worker
    of.log[row, 1] = step
    of.log[row, 2] = micro_batch
    of.log[row, 3] = kind
    of.log[row, 4] = communication
    of.log[row, 5] = start_ns
    of.log[row, 6] = end_ns


@compiled_part
def log_piece(of: Sequences, s: int, now: int) -> None:
    """Log the present piece of sequence ``s``, which ends ``now``."""
    row = of.sequence[s]
    piece = of.piece[row["piece"]]
    log_span(
        of, row["number"], row["step"], piece["micro_batch"], piece["span"], NO_COMMUNICATION,
        row["begun_ns"], now,
    )  # fmt: skip
    if of.tally[ROWS] >= of.limit[0] and of.tally[CUT] == 0:
        of.tally[CUT] = of.tally[ROWS]


@compiled_part
def log_message(of: Sequences, m: int, end_ns: int) -> None:
    """Log message ``m`` at its sender and at its receiver, unless it has no kinds of spans."""
    message = of.message[m]
    if message["sent"] < 0:
        return
    queue = of.queue[message["queue"]]
    number = of.tally[COMMUNICATIONS]
    of.tally[COMMUNICATIONS] = number + queue["ranks"]
    for worker, kind in (
        (queue["sender"], message["sent"]),
        (queue["receiver"], message["received"]),
    ):
        log_span(
            of, worker, message["step"], message["micro_batch"], kind, number,
            message["start_ns"], end_ns,
        )  # fmt: skip


@compiled_part
def new_message(of: Sequences, q: int, mailbox: int, size_bytes: int) -> int:
    """A new message of queue ``q``, the last one that waits; it has no spans yet."""
    m: int = of.counts[FREE_MESSAGE]
    message, queue = of.message[m], of.queue[q]
    of.counts[FREE_MESSAGE] = message["next"]
    message["bytes"] = size_bytes
    message["mailbox"] = queue["mailboxes"] + mailbox
    message["queue"] = q
    message["next"] = -1
    message["sent"] = -1
    if queue["first"] < 0:
        queue["first"] = m
    else:
        of.message[queue["last"]]["next"] = m
    queue["last"] = m
    return m


@compiled_part
def free_message(of: Sequences, m: int) -> None:
    of.message[m]["next"] = of.counts[FREE_MESSAGE]
    of.counts[FREE_MESSAGE] = m
