"""Acknowledgements: small packets in the reverse direction."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


class Acknowledgements(EffectBase):
    """One packet without payload for every so many packets, on the reversed 5-tuple."""

    needs_packets = True

    kind: Literal["acknowledgements"] = "acknowledgements"
    every: int = Field(
        default=2,
        ge=1,
        description="Packets an acknowledgement covers. Default: 2 (RFC 1122, 4.2.3.2, delayed "
        "acknowledgements); with receive offload 9 to 11 (the real captures).",
    )
    packet_bytes: int = Field(
        default=52,
        ge=1,
        description="IP length of one [bytes]. Default: TCP with timestamps, 20 + 20 + 12 "
        "(RFC 7323). RoCE v2: 48, 20 IP + 8 UDP + 12 BTH + 4 AETH + 4 ICRC (Annex A17).",
    )

    def stage(self, scene: Scene) -> Stage:
        def answer(rows: Rows) -> Rows:
            back = rows[rows["packets"] > 0].copy()
            tuples = scene.tuples
            latency_ns = tuples.column("latency_ns")[back["tuple"]]
            back["tuple"] = tuples.reverse(back["tuple"])
            for name in ("src", "dst", "path"):
                back[name] = tuples.column(name)[back["tuple"]]
            back["exporter"] = tuples.column("leaf_in")[back["tuple"]]
            for name in ("start_ns", "end_ns", "arrival_ns"):
                back[name] += latency_ns
            back["packets"] = -(-back["packets"] // self.every)
            back["bytes"] = back["packets"] * self.packet_bytes
            back["payload"] = 0
            back["id"] = scene.identity(back)
            scene.note(back)
            return np.concatenate([rows, back])

        return answer
