"""The core runs ahead of SimPy: from instant to instant, until Python has something to do.

Compiled code handles the ends of flows, the pieces of sequences, and the messages between them. It
stops at the next event of SimPy, and when Python must continue: a batch that Python started has
ended, a sequence is over, a message has arrived for which Python waits, a piece of the log is full,
or an array is.

In one instant, all events come first, in order of their turns. Then the rates of flows are computed
once for all changes of the instant, and batches that have ended are handled in their order.
"""

from __future__ import annotations

import numpy as np

from prism_common.compiled import compiled, compiled_part
from prism_sim.cluster.core import N_DONE, N_HANDLED, N_RECORD, N_START, Moves, advance, next_end
from prism_sim.cluster.sequences import (
    COMPUTES,
    FREE_MESSAGE,
    N_EVENTS,
    NOBODY,
    SPARE,
    Sequences,
    free_message,
    go_on,
    log_message,
    log_piece,
    new_message,
    pop_event,
    push_event,
)
from prism_sim.cluster.state import ACTIVE_LOG, HEAP_SIZE, NEVER, USED_LOG, USED_USES, Int64s, Net
from prism_sim.truth import CUT, ROWS

LIMIT, BATCH_DONE, SEQUENCE_OVER, MESSAGE_CAME, LOG_FULL, NO_ROOM = range(6)
"""Reasons to return to Python."""
NOW_NS, CHANGE_DUE, WHO, ACTIVE_NEEDED, USES_NEEDED, IN_LOGS_NEEDED = range(6)
"""Places in ``at``: the present time, whether rates must be computed in this instant, the sequence
or mailbox that Python continues with, and the room that the next changes need."""


@compiled
def run_ahead(
    net: Net, moves: Moves, of: Sequences, at: Int64s, limit_ns: int, limit_turn: int
) -> tuple[int, int, int]:
    """Run until Python has something to do, or its event at ``limit_ns`` with ``limit_turn``.

    Returns
    -------
    reason : why it stopped.
    next_ns, next_change_ns : times of the next event and of the next change of rates.
    """
    while True:
        event_ns = of.event[0]["time_ns"] if of.counts[N_EVENTS] > 0 else NEVER
        change_ns = at[NOW_NS] if at[CHANGE_DUE] else next_end(net)
        if of.tally[CUT] > 0:
            return LOG_FULL, event_ns, change_ns
        if _is_full(moves, of):
            return NO_ROOM, event_ns, change_ns
        handled = moves.counts[N_HANDLED]
        if handled < moves.counts[N_DONE]:
            if moves.done[handled, 0] >= 0:
                return BATCH_DONE, event_ns, change_ns
            _deliver(moves, of, at, handled)
        elif event_ns <= change_ns and event_ns < NEVER:
            if event_ns >= limit_ns and (event_ns > limit_ns or of.event[0]["turn"] > limit_turn):
                return LIMIT, event_ns, change_ns
            at[NOW_NS] = event_ns
            reason = _happen(moves, of, at, pop_event(of))
            if reason != LIMIT:
                return reason, event_ns, change_ns
        else:
            if change_ns >= limit_ns:
                return LIMIT, event_ns, change_ns
            if _lacks_room(net, moves, at):
                return NO_ROOM, event_ns, change_ns
            at[NOW_NS] = change_ns
            at[CHANGE_DUE] = 0
            advance(net, moves, of.message, change_ns)


@compiled_part
def _happen(moves: Moves, of: Sequences, at: Int64s, who: int) -> int:
    """Handle an event of ``who``; return the reason to return to Python, LIMIT for none."""
    now = at[NOW_NS]
    if who < 0:
        return _arrive(of, at, ~who)
    row = of.sequence[who]
    if row["state"] != COMPUTES:  # it was stopped
        return LIMIT
    log_piece(of, who, now)
    piece = of.piece[row["piece"]]
    if piece["mailbox"] >= 0:
        _send_result(moves, of, at, who)
    row["piece"] += 1
    at[WHO] = who
    return SEQUENCE_OVER if go_on(of, who, now) else LIMIT


@compiled_part
def _arrive(of: Sequences, at: Int64s, mailbox: int) -> int:
    """A message arrives in ``mailbox``; who waits there goes on."""
    waiter = of.waiter[mailbox]
    of.waiter[mailbox] = NOBODY
    if waiter == NOBODY:
        of.arrived[mailbox] += 1
        return LIMIT
    if waiter < 0:
        at[WHO] = mailbox
        return MESSAGE_CAME
    of.sequence[waiter]["received"] = 1
    at[WHO] = waiter
    return SEQUENCE_OVER if go_on(of, waiter, at[NOW_NS]) else LIMIT


@compiled_part
def _send_result(moves: Moves, of: Sequences, at: Int64s, s: int) -> None:
    """Send the result of the present piece of sequence ``s``."""
    row = of.sequence[s]
    piece = of.piece[row["piece"]]
    size_bytes = of.size_bytes[row["sizes"] + piece["micro_batch"]]
    q = row["queues"] + piece["queue"]
    m = new_message(of, q, piece["mailbox"], size_bytes)
    message = of.message[m]
    message["step"] = row["step"]
    message["micro_batch"] = piece["micro_batch"]
    message["sent"] = piece["sent"]
    message["received"] = piece["received"]
    if not of.queue[q]["sending"]:
        _start_next(moves, of, at, q)


@compiled_part
def _start_next(moves: Moves, of: Sequences, at: Int64s, q: int) -> None:
    """Start the first message that waits in queue ``q``, if there is one."""
    queue = of.queue[q]
    m = queue["first"]
    queue["sending"] = m >= 0
    if m < 0:
        return
    queue["first"] = of.message[m]["next"]
    row = moves.start[moves.counts[N_START]]
    moves.counts[N_START] += 1
    row["bytes"] = of.message[m]["bytes"]
    row["cap"] = np.inf
    row["bundle"] = queue["bundle"]
    row["batch"] = ~m
    at[CHANGE_DUE] = 1


@compiled_part
def _deliver(moves: Moves, of: Sequences, at: Int64s, handled: int) -> None:
    """Deliver the message that is done in row ``handled``, and send the next one of its queue."""
    moves.counts[N_HANDLED] = handled + 1
    m = ~moves.done[handled, 0]
    message = of.message[m]
    queue = of.queue[message["queue"]]
    log_message(of, m, moves.done[handled, 2] + queue["latency_ns"])
    _start_next(moves, of, at, message["queue"])
    push_event(of, at[NOW_NS] + queue["latency_ns"], ~message["mailbox"])
    free_message(of, m)


@compiled_part
def _is_full(moves: Moves, of: Sequences) -> bool:
    """Whether an event could find too little room in the arrays that it fills."""
    if moves.counts[N_START] + SPARE > len(moves.start):
        return True
    if of.counts[N_EVENTS] + SPARE > len(of.event) or of.tally[ROWS] + SPARE > len(of.log):
        return True
    return bool(of.counts[FREE_MESSAGE] >= len(of.message))


@compiled_part
def _lacks_room(net: Net, moves: Moves, at: Int64s) -> bool:
    """Whether the bundles that start need more room; ``at`` gets how much."""
    active, uses = net.counters[HEAP_SIZE], net.counters[USED_USES]
    in_logs = net.counters[USED_LOG] + net.counters[ACTIVE_LOG]
    for k in range(moves.counts[N_START]):
        bundle = moves.start[k]["bundle"]
        active += moves.bundle_ptr[bundle + 1] - moves.bundle_ptr[bundle]
        uses += moves.need[bundle, 0]
        in_logs += moves.need[bundle, 1]
    at[ACTIVE_NEEDED], at[USES_NEEDED], at[IN_LOGS_NEEDED] = active, uses, in_logs
    return bool(
        active > len(net.entity)
        or active > len(moves.done)
        or moves.counts[N_RECORD] + active > len(moves.record)
        or uses > len(net.use)
        or in_logs > len(net.log)
    )


@compiled
def play(moves: Moves, of: Sequences, s: int, now: int) -> int:
    """Begin the pieces of sequence ``s`` that are set.

    Returns LIMIT, SEQUENCE_OVER if it stopped at once, or NO_ROOM if nothing was done.
    """
    if _is_full(moves, of):
        return NO_ROOM
    return SEQUENCE_OVER if go_on(of, s, now) else LIMIT


@compiled
def send(
    moves: Moves,
    of: Sequences,
    at: Int64s,
    q: int,
    mailbox: int,
    size_bytes: int,
    named: tuple[int, int, int, int],
    now: int,
) -> int:
    """Send ``size_bytes`` from queue ``q`` to a mailbox of its receiver.

    ``named`` has the step, the micro-batch, and both kinds of spans (-1: not logged). Returns
    LIMIT, or NO_ROOM if nothing was done.
    """
    if _is_full(moves, of):
        return NO_ROOM
    message = of.message[new_message(of, q, mailbox, size_bytes)]
    message["step"], message["micro_batch"], message["sent"], message["received"] = named
    at[NOW_NS] = now
    if not of.queue[q]["sending"]:
        _start_next(moves, of, at, q)
    return LIMIT


@compiled
def clear_queue(of: Sequences, q: int) -> None:
    """Drop the messages that wait in queue ``q``."""
    m = of.queue[q]["first"]
    of.queue[q]["first"] = -1
    while m >= 0:
        after = of.message[m]["next"]
        free_message(of, m)
        m = after
