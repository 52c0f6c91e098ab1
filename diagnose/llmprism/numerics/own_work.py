"""One pass over the events of all units of a job: what each works before what it sends.

A *lane* leads from one unit to another, and its records are of one kind. What is sent on it counts
in parts of what it usually sends in a step, so that lanes can be compared.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from prism_common.compiled import compiled, compiled_part


@compiled
def add_own_work(
    order: tuple[Codes, Codes], records: tuple[Ints, Ints, Ints], of: tuple[Codes, Codes],
    lanes: tuple[Codes, Codes, Codes, Bools], usual: tuple[Floats, float], own: Floats,
) -> Bools:  # fmt: skip
    """Add the own work of each unit and step to ``own``; returns which units have events.

    Of several events at one time, ends come first, then begins of what units send, then those of
    collectives that they receive.

    Parameters
    ----------
    order : records in order of their starts, and in order of their ends.
    records : start and end [ns] and bytes of each record; ``of``: its step and its lane.
    lanes : source and target of each lane, -1 for none; its kind; whether it carries messages.
    usual : bytes of each lane in a usual step, and the share of these that counts as one part.
    own : [ns], shape (units, steps).
    """
    by_start, by_end = order
    start_ns, end_ns, size = records
    step, lane = of
    source, target, kind, is_message = lanes
    units, steps = own.shape
    latest_ns, known = np.zeros(units, np.int64), np.zeros(units, np.bool_)
    sent = np.zeros(kind.size * steps, np.int64)  # of each lane in each step, by now
    before = np.zeros(by_start.size, np.int64)  # the same when each record begins
    most = np.zeros((units, kind.max() + 1, steps), np.int64)
    state = latest_ns, known, most
    about = before, size, step, lane
    ended, at = 0, 0
    while at < by_start.size:
        now_ns = start_ns[by_start[at]]
        while ended < by_end.size and end_ns[by_end[ended]] <= now_ns:
            _note_end(by_end[ended], end_ns, lane, source, target, latest_ns, known)
            ended += 1
        until = at
        while until < by_start.size and start_ns[by_start[until]] == now_ns:
            row = by_start[until]
            cell = lane[row] * steps + step[row]
            before[row] = sent[cell]
            sent[cell] += size[row]
            until += 1
        for receives in range(2):
            for place in range(at, until):
                row = by_start[place]
                unit = target[lane[row]] if receives else source[lane[row]]
                if unit >= 0 and not (receives and is_message[lane[row]]):
                    _begin(row, unit, now_ns, about, kind, is_message, usual, state, own)
        at = until
    for place in range(ended, by_end.size):
        _note_end(by_end[place], end_ns, lane, source, target, latest_ns, known)
    return known


@compiled_part
def _note_end(
    row: int, end_ns: Ints, lane: Codes, source: Codes, target: Codes, latest_ns: Ints,
    known: Bools,
) -> None:  # fmt: skip
    """Note the end of a record as the latest event of both of its units."""
    for unit in (source[lane[row]], target[lane[row]]):
        if unit >= 0:
            latest_ns[unit] = end_ns[row]
            known[unit] = True


@compiled_part
def _begin(
    row: int, unit: int, now_ns: int, about: tuple[Ints, Ints, Codes, Codes], kind: Codes,
    is_message: Bools, usually: tuple[Floats, float], state: tuple[Ints, Bools, Ints], own: Floats,
) -> None:  # fmt: skip
    """Add the time since the latest event of a ``unit``, if it joins with the record ``row``.

    It joins a collective if its lane goes beyond all that its lanes of the same kind sent in the
    step, in parts of the bytes of a usual step.
    """
    latest_ns, known, most = state
    before, size, step, lane = about
    of, usual, part = lane[row], usually[0][lane[row]], usually[1]
    joins = is_message[of]
    if not joins and np.isfinite(usual):
        reached = most[unit, kind[of]]
        joins = np.floor(before[row] / usual / part + 0.5) >= reached[step[row]]
        after = np.int64(np.floor((before[row] + size[row]) / usual / part + 0.5))
        reached[step[row]] = max(reached[step[row]], after)
    if joins and known[unit]:
        own[unit, step[row]] += now_ns - latest_ns[unit]
    latest_ns[unit] = now_ns
    known[unit] = True
