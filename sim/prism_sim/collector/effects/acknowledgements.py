"""Acknowledgements: small packets in the reverse direction."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows

TCP_BYTES, ROCE_BYTES = 52, 48
"""IP length of an acknowledgement [bytes]."""


class Acknowledgements(EffectBase):
    """One packet without payload for every so many packets, on the reversed 5-tuple."""

    needs_packets = True

    kind: Literal["acknowledgements"] = "acknowledgements"
    every: int = Field(default=2, ge=1, le=1_000_000_000)
    """Packets an acknowledgement covers. Default: 2 (RFC 1122, 4.2.3.2, delayed acknowledgements);
    with receive offload 9 to 11 (the real captures)."""
    packet_bytes: int | None = Field(default=None, ge=1, le=1_000_000)
    """IP length of one [bytes]. Left out: 52 for TCP with timestamps, 20 + 20 + 12 (RFC 7323); 48
    for RoCE v2, 20 IP + 8 UDP + 12 BTH + 4 AETH + 4 ICRC (Annex A17)."""
    one_by_one: bool = False
    """Each has its own time, so silence between them can cut records. False: those of a transfer
    are one train without pauses. For small clusters: it takes one row an acknowledgement."""
    delay_ms: float = Field(default=0.0, ge=0, le=1e9)
    """A single packet is acknowledged after this delay [ms], unless a second one arrives or
    something is sent back before; that then carries the acknowledgement. Default: at once, as RoCE
    NICs and stacks in quick-acknowledgement mode do. Delayed: 40 (Linux), 200 (other stacks). Rows
    are then held for some 20 s of the simulation; answers to transfers of more than 10 s are not
    modelled."""

    @property
    def lookback_ns(self) -> int | None:
        """A delayed acknowledgement depends on later traffic."""
        return self._delay_ns or None

    @property
    def _delay_ns(self) -> int:
        return round(self.delay_ms * 1e6)

    def stage(self, scene: Scene) -> Stage:
        delayed = Delayed(scene, self._delay_ns) if self._delay_ns else None

        def answer(rows: Rows) -> Rows:
            counted = rows[rows["packets"] > 0]
            late = rows[:0]
            if delayed is not None:
                late = self._turned(scene, delayed.settled(counted))
                counted = counted[counted["packets"] > 1]
            back = self._sized(scene, np.concatenate([self._back(scene, counted), late]))
            scene.totals.count_added(back)
            return np.concatenate([rows, back])

        return answer

    def _back(self, scene: Scene, rows: Rows) -> Rows:
        """Acknowledgements of whole transfers."""
        back = self._turned(scene, rows)
        back["packets"] = packets = -(-back["packets"] // self.every)
        if self.one_by_one:
            back = self._singly(back, rows["packets"], packets)
        return back

    def _turned(self, scene: Scene, rows: Rows) -> Rows:
        """``rows`` in the opposite direction, one latency later."""
        back, tuples = rows.copy(), scene.tuples
        latency_ns = tuples.column("latency_ns")[back["tuple"]]
        back["tuple"] = tuples.reverse(back["tuple"])
        for name in ("src", "dst"):
            back[name] = tuples.column(name)[back["tuple"]]
        back["exporter"] = tuples.column("leaf_in")[back["tuple"]]
        for name in ("start_ns", "end_ns", "arrival_ns"):
            back[name] += latency_ns
        back["path"] = tuples.path_at(back["tuple"], back["start_ns"])
        return back

    def _singly(self, back: Rows, covered: NDArray[np.int64], packets: NDArray[np.int64]) -> Rows:
        """Each acknowledgement in ``back``, at the time when its packets have arrived."""
        of = np.repeat(np.arange(len(back)), packets)
        number = np.arange(len(of)) - np.repeat(np.cumsum(packets) - packets, packets) + 1
        come = np.minimum(number * self.every, covered[of]) / covered[of]
        each = back[of]
        length = each["end_ns"] - each["start_ns"]
        each["end_ns"] = each["start_ns"] + np.rint(come * length).astype(np.int64)
        each["start_ns"] = each["arrival_ns"] = each["end_ns"]
        each["packets"] = 1
        return each

    def _sized(self, scene: Scene, back: Rows) -> Rows:
        usual = np.where(scene.tuples.over_tcp(back["tuple"]), TCP_BYTES, ROCE_BYTES)
        size = usual if self.packet_bytes is None else self.packet_bytes
        back["bytes"] = back["packets"] * size
        back["payload"] = 0
        back["id"] = scene.identity(back)
        return back


# Delayed acknowledgements: a receiver waits a little, because it may send something back.
#
# A single packet is acknowledged when a second one arrives or when the delay has passed. Anything
# that the receiver sends in the meantime carries the acknowledgement. A transfer of several packets
# is acknowledged as it arrives, together with any packet that was waiting.
#
# Reference: RFC 1122, section 4.2.3.2; RFC 5681, section 4.2.

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
