"""Effects on when records arrive, and on the times in them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows


# Records that arrive some time after they end, and not in order.
class Lateness(EffectBase):
    """Every record waits before it is exported, and some records wait much longer.

    Both waits are exponential. The table keeps records in the order of their arrival, which differs
    from the order of their starts and of their ends. An outage loses the records that arrive in it.
    """

    after_cutting = True
    delays = True

    kind: Literal["lateness"] = "lateness"
    delay_ms: float = Field(default=1000.0, ge=0, le=1e9)
    """Mean wait of every record, from its end to its arrival [ms]. Default: 1 s, the least idle
    timeout that Cisco's Flexible NetFlow takes (default there: 15 s)."""
    late: float = Field(default=0.01, ge=0, le=1)
    """Share of records that are late. Assumed: no published figure found."""
    late_s: float = Field(default=30.0, ge=0, le=1e8)
    """Mean further wait of a late record [s]. Default: the value that Netdata's guide on flow
    export latency names as the sign of a bottleneck."""

    def stage(self, scene: Scene) -> Stage:
        def wait(rows: Rows) -> Rows:
            usual = -np.log(scene.uniform("export delay", rows)) * self.delay_ms * 1e6
            more = -np.log(scene.uniform("lateness", rows)) * self.late_s * 1e9
            late = scene.uniform("late", rows) < self.late
            rows["arrival_ns"] += np.rint(usual + late * more).astype(np.int64)
            return rows

        return wait


# Exporters whose clocks have errors.
class Clocks(EffectBase):
    """Each exporter's clock has an offset and a drift, normally distributed around zero."""

    after_cutting = True

    kind: Literal["clocks"] = "clocks"
    offset_us: float = Field(default=50.0, ge=0, le=1e14)
    """Standard deviation of offsets [us]. Default: 50, since NTP reaches tens of microseconds on a
    LAN (chrony's README; thousands over the Internet). PTP in hardware: below 1 (linuxptp)."""
    drift_ppm: float = Field(default=0.0, ge=0, le=1e6)
    """Standard deviation of rates [ppm]. Default: none, as for a disciplined clock. Practice:
    free-running ones are within 100 (the limit of IEEE 802.3 for ports)."""

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


# Timestamps that are coarser than a nanosecond.
class Granularity(EffectBase):
    """Times are truncated to whole units of the exporter's clock."""

    after_cutting = True

    kind: Literal["granularity"] = "granularity"
    unit_ns: int = Field(default=1_000_000, ge=1, le=1_000_000_000)
    """Unit of time [ns]. Default: 1 ms (NetFlow v9, RFC 3954: ms of uptime). IPFIX has elements for
    s, ms, us and ns (IANA, 150 to 157)."""

    def stage(self, scene: Scene) -> Stage:
        def tick(rows: Rows) -> Rows:
            for name in ("start_ns", "end_ns"):
                rows[name] -= (rows[name] + scene.epoch_ns) % self.unit_ns
            return rows

        return tick
