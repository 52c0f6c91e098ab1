"""Exporters whose clocks have errors."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


class Clocks(EffectBase):
    """Each exporter's clock has an offset and a drift, normally distributed around zero."""

    after_cutting = True

    kind: Literal["clocks"] = "clocks"
    offset_us: float = Field(
        default=50.0,
        ge=0,
        le=1e14,
        description="Standard deviation of offsets [us]. Default: 50, since NTP reaches tens of "
        "microseconds on a LAN (chrony's README; thousands over the Internet). PTP in "
        "hardware: below 1 (linuxptp).",
    )
    drift_ppm: float = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="Standard deviation of rates [ppm]. Default: none, as for a disciplined "
        "clock. Practice: free-running ones are within 100 (the limit of IEEE 802.3 for ports).",
    )

    def stage(self, scene: Scene) -> Stage:
        leaves = len(scene.tuples.router.layout.leaves)
        normal = np.array(
            [scene.draws.stream("clock", leaf).standard_normal(2) for leaf in range(leaves)]
        )
        offset_ns, drift = normal[:, 0] * self.offset_us * 1e3, normal[:, 1] * self.drift_ppm * 1e-6

        def read(rows: Rows) -> Rows:
            at = rows["exporter"]
            for name in ("start_ns", "end_ns"):
                shift = offset_ns[at] + drift[at] * rows[name]
                rows[name] += np.rint(shift).astype(np.int64)
            return rows

        return read
