"""Timestamps that are coarser than a nanosecond."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


class Granularity(EffectBase):
    """Times are truncated to whole units of the exporter's clock."""

    after_cutting = True

    kind: Literal["granularity"] = "granularity"
    unit_ns: int = Field(
        default=1_000_000,
        ge=1,
        le=1_000_000_000,
        description="Unit of time [ns]. Default: 1 ms (NetFlow v9, RFC 3954: ms of "
        "uptime). IPFIX has elements for s, ms, us and ns (IANA, 150 to 157).",
    )

    def stage(self, scene: Scene) -> Stage:
        def tick(rows: Rows) -> Rows:
            for name in ("start_ns", "end_ns"):
                rows[name] -= (rows[name] + scene.epoch_ns) % self.unit_ns
            return rows

        return tick
