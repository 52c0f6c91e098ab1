"""Delayed acknowledgements: a receiver waits a little, because it may send something back.

A single packet is acknowledged when a second one arrives or when the delay has passed. Anything
that the receiver sends in the meantime carries the acknowledgement. A transfer of several packets
is acknowledged as it arrives, together with any packet that was waiting.

Reference: RFC 1122, section 4.2.3.2; RFC 5681, section 4.2.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from prism_sim.collector.rows import Rows
from prism_sim.collector.scene import Scene

Times = NDArray[np.int64]
_NONE: Times = np.zeros(0, np.int64)


class Delayed:
    """Finds, batch after batch, packets that get an acknowledgement of their own.

    It keeps at most one packet per 5-tuple, and the later traffic of the opposite direction.

    Parameters
    ----------
    scene : the time that rows have reached; rows must be in order of their start.
    delay_ns : how long a receiver waits.
    """

    def __init__(self, scene: Scene, delay_ns: int) -> None:
        self._scene = scene
        self._delay_ns = delay_ns
        self._waiting: dict[int, Rows] = {}
        self._answers: dict[int, Times] = {}
        scene.holders.append(self)

    def __len__(self) -> int:
        return len(self._waiting) + sum(len(times) for times in self._answers.values())

    def settled(self, rows: Rows) -> Rows:
        """Single packets, of ``rows`` or before, whose acknowledgement is now certain.

        Their times are moved to the time of the acknowledgement at the receiver.
        """
        pieces = self._by_tuple(rows)
        numbers = sorted({*pieces, *self._waiting})
        back = self._scene.tuples.reverse(np.array(numbers, np.int32)).tolist()
        known, waiting = {}, {}
        settled = [rows[:0]]
        for number, opposite in zip(numbers, back, strict=True):
            before, after = self._waiting.get(number, rows[:0]), pieces.get(number, rows[:0])
            own = np.concatenate([before, after])
            later = pieces[opposite]["start_ns"] if opposite in pieces else _NONE
            known[number] = np.concatenate([self._answers.get(number, _NONE), later])
            which, due, open_ = self._due(own, known[number].tolist())
            if open_ >= 0:
                waiting[number] = own[open_ : open_ + 1]
            late = own[which]
            late["start_ns"] = late["end_ns"] = late["arrival_ns"] = due
            settled.append(late)
        self._waiting = waiting
        self._answers = {
            number: known[number][known[number] >= packet["start_ns"][0]]
            for number, packet in waiting.items()
        }
        return np.concatenate(settled)

    @staticmethod
    def _by_tuple(rows: Rows) -> dict[int, Rows]:
        if not len(rows):
            return {}
        rows = rows[np.lexsort((rows["start_ns"], rows["tuple"]))]
        found, first = np.unique(rows["tuple"], return_index=True)
        return dict(zip(found.tolist(), np.split(rows, first[1:]), strict=True))

    def _due(self, own: Rows, answers: list[int]) -> tuple[list[int], list[int], int]:
        """Packets of one 5-tuple with their own acknowledgement, its times, and the undecided rest.

        ``answers`` are the sorted times at which something is sent in the opposite direction.
        """
        times_ns, alone = own["start_ns"].tolist(), (own["packets"] == 1).tolist()
        which: list[int] = []
        due: list[int] = []
        waiting = -1

        def settle(number: int, at_ns: int) -> None:
            following = bisect_left(answers, times_ns[number])
            if following == len(answers) or answers[following] >= at_ns:
                which.append(number)
                due.append(at_ns)

        for number, (at_ns, lone) in enumerate(zip(times_ns, alone, strict=True)):
            if waiting >= 0 and at_ns > times_ns[waiting] + self._delay_ns:
                settle(waiting, times_ns[waiting] + self._delay_ns)
                waiting = -1
            if waiting >= 0 and lone:
                settle(waiting, at_ns)
            waiting = number if lone and waiting < 0 else -1
        until_ns = times_ns[waiting] + self._delay_ns if waiting >= 0 else 0
        if waiting >= 0 and (self._scene.is_over or until_ns < self._scene.now_ns):
            settle(waiting, until_ns)
            waiting = -1
        return which, due, waiting
