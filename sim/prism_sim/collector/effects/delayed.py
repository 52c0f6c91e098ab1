"""Delayed acknowledgements: a receiver waits a little, in case it has something to send back.

A packet that comes alone is acknowledged when a second one comes, or when the delay is
over; what the receiver sends in the meantime carries the acknowledgement with it. A transfer of
several packets is acknowledged as it comes, and whatever waited goes along.

Reference: RFC 1122, section 4.2.3.2; RFC 5681, section 4.2.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import Tuples


def delayed(rows: Rows, tuples: Tuples, delay_ns: float) -> Rows:
    """Packets of ``rows`` that come alone and get an acknowledgement of their own.

    Their times are moved to where the acknowledgement is due, at the receiver.
    """
    order = np.lexsort((rows["start_ns"], rows["tuple"]))
    rows = rows[order]
    found, first = np.unique(rows["tuple"], return_index=True)
    pieces = dict(zip(found.tolist(), np.split(rows, first[1:]), strict=True))
    reverse = dict(zip(found.tolist(), tuples.reverse(found).tolist(), strict=True))
    answered = []
    for number, own in pieces.items():
        opposite = pieces.get(reverse[number])
        sent_back = opposite["start_ns"].tolist() if opposite is not None else []
        alone = own["packets"] == 1
        which, due = _due(own["start_ns"], alone, sent_back, round(delay_ns))
        late = own[which]
        late["start_ns"] = late["end_ns"] = late["arrival_ns"] = due
        answered.append(late)
    return np.concatenate(answered) if answered else rows[:0]


def _due(
    times_ns: NDArray[np.int64], alone: NDArray[np.bool_], sent_back: list[int], delay_ns: int
) -> tuple[list[int], list[int]]:
    """Which packets of one 5-tuple are acknowledged by themselves, and when.

    ``sent_back`` are the sorted times at which something goes the other way.
    """
    which: list[int] = []
    due: list[int] = []
    waiting = -1

    def settle(number: int, at_ns: int) -> None:
        since = int(times_ns[number])
        following = bisect_left(sent_back, since)
        if following == len(sent_back) or sent_back[following] >= at_ns:
            which.append(number)
            due.append(at_ns)

    for number, (at_ns, lone) in enumerate(zip(times_ns.tolist(), alone.tolist(), strict=True)):
        if waiting >= 0 and at_ns > times_ns[waiting] + delay_ns:
            settle(waiting, int(times_ns[waiting]) + delay_ns)
            waiting = -1
        if waiting >= 0 and lone:
            settle(waiting, at_ns)
        waiting = number if lone and waiting < 0 else -1
    if waiting >= 0:
        settle(waiting, int(times_ns[waiting]) + delay_ns)
    return which, due
