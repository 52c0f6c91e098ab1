"""Packets and their headers: bytes as a switch counts them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


class Headers(EffectBase):
    """Count packets, and count ``bytes`` as IP length: payload and one header a packet."""

    counts = True

    kind: Literal["headers"] = "headers"
    mtu_payload_bytes: int = Field(
        default=4096,
        ge=1,
        le=1_000_000_000,
        description="Payload of a full packet [bytes]. Default: RoCE v2's largest MTU; TCP over "
        "Ethernet: 1448.",
    )
    header_bytes: int = Field(
        default=44,
        ge=0,
        le=1_000_000,
        description="IP length of a packet without payload [bytes]. Default: RoCE v2, 20 IP + 8 "
        "UDP + 12 BTH + 4 ICRC (Annex A17); TCP with timestamps: 52 (RFC 7323). Seen on a host "
        "before segmentation, as in the real captures: 5, one header for 10 or 11 packets.",
    )
    transport: Literal["roce", "tcp"] = Field(
        default="roce",
        description="Default: RoCE v2, protocol 17, as GPU clusters train over RDMA. tcp: protocol "
        "6, and both directions share one connection's ports.",
    )

    def stage(self, scene: Scene) -> Stage:
        scene.tuples.tcp = self.transport == "tcp"

        def count(rows: Rows) -> Rows:
            rows["packets"] = -(-rows["payload"] // self.mtu_payload_bytes)
            rows["bytes"] = rows["payload"] + self.header_bytes * rows["packets"]
            return rows

        return count
