"""Acknowledgements: small packets in the reverse direction."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.effects.delayed import Delayed
from prism_sim.collector.rows import Rows

TCP_BYTES, ROCE_BYTES = 52, 48
"""IP length of an acknowledgement [bytes]."""


class Acknowledgements(EffectBase):
    """One packet without payload for every so many packets, on the reversed 5-tuple."""

    needs_packets = True

    kind: Literal["acknowledgements"] = "acknowledgements"
    every: int = Field(
        default=2,
        ge=1,
        le=1_000_000_000,
        description="Packets an acknowledgement covers. Default: 2 (RFC 1122, 4.2.3.2, delayed "
        "acknowledgements); with receive offload 9 to 11 (the real captures).",
    )
    packet_bytes: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="IP length of one [bytes]. Left out: 52 for TCP with timestamps, 20 + 20 + 12 "
        "(RFC 7323); 48 for RoCE v2, 20 IP + 8 UDP + 12 BTH + 4 AETH + 4 ICRC (Annex A17).",
    )
    one_by_one: bool = Field(
        default=False,
        description="Each has its own time, so silence between them can cut records. "
        "False: those of a transfer are one train without pauses. For small clusters: it takes "
        "one row an acknowledgement.",
    )
    delay_ms: float = Field(
        default=0.0,
        ge=0,
        le=1e9,
        description="A single packet is acknowledged after this delay [ms], unless a second one "
        "arrives or something is sent back before; that then carries the acknowledgement. "
        "Default: at once, as RoCE NICs and stacks in quick-acknowledgement mode do. Delayed: 40 "
        "(Linux), 200 (other stacks). Rows are then held for some 20 s of the simulation; answers "
        "to transfers of more than 10 s are not modelled.",
    )

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
