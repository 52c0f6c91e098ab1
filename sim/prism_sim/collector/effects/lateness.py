"""Records that arrive some time after they end, and not in order."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


class Lateness(EffectBase):
    """Every record waits before it is exported, and some records wait much longer.

    Both waits are exponential. The table keeps records in the order of their arrival, which differs
    from the order of their starts and of their ends. An outage loses the records that arrive in it.
    """

    after_cutting = True
    delays = True

    kind: Literal["lateness"] = "lateness"
    delay_ms: float = Field(
        default=1000.0,
        ge=0,
        le=1e9,
        description="Mean wait of every record, from its end to its arrival [ms]. Default: 1 s, "
        "the least idle timeout that Cisco's Flexible NetFlow takes (default there: 15 s).",
    )
    late: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Share of records that are late. Assumed: no published figure found.",
    )
    late_s: float = Field(
        default=30.0,
        ge=0,
        le=1e8,
        description="Mean further wait of a late record [s]. Default: the value that Netdata's "
        "guide on flow export latency names as the sign of a bottleneck.",
    )

    def stage(self, scene: Scene) -> Stage:
        def wait(rows: Rows) -> Rows:
            usual = -np.log(scene.uniform("export delay", rows)) * self.delay_ms * 1e6
            more = -np.log(scene.uniform("lateness", rows)) * self.late_s * 1e9
            late = scene.uniform("late", rows) < self.late
            rows["arrival_ns"] += np.rint(usual + late * more).astype(np.int64)
            return rows

        return wait
