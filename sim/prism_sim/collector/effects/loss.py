"""Loss of records before the collector: single ones, and bursts."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows

CYCLES = 64
"""Mean cycles of good and bad periods that are drawn at a time, one stream each."""
UDP_LOSS = 1.4e-3
"""Share of export packets lost over UDP: 22 sequence failures in 15,292 (nfdump, issue 335)."""


class Loss(EffectBase):
    """Loss with two states, good and bad, of each exporter independently.

    Gilbert's model in continuous time: sojourn times are exponential, so the loss of a record does
    not depend on the number of other records. Reference: Gilbert, Capacity of a
    burst-noise channel, 1960; Elliott, 1963.
    """

    after_cutting = True

    kind: Literal["loss"] = "loss"
    probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Loss of a record in the good state. Left out: 1.4e-3, as over UDP at one "
        "exporter of a site whose other had 2e-4 (packets; nfdump, issue 335); none where "
        "burst_probability is given, so that a scenario can have bursts only.",
    )
    burst_probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Loss of a record in the bad state. Left out: as in the good state.",
    )
    mean_good_s: float = Field(
        default=60.0,
        ge=1e-9,
        le=1e9,
        description="Mean length of good periods [s]. Assumed: no published figure found.",
    )
    mean_bad_s: float = Field(
        default=1.0,
        ge=1e-9,
        le=1e9,
        description="Mean length of bad periods [s]. Assumed: no published figure found.",
    )

    @property
    def good_probability(self) -> float:
        """Loss of a record in the good state, with the default filled in."""
        if self.probability is not None:
            return self.probability
        return UDP_LOSS if self.burst_probability is None else 0.0

    def stage(self, scene: Scene) -> Stage:
        block_ns = CYCLES * (self.mean_good_s + self.mean_bad_s) * 1e9

        @lru_cache(maxsize=256)
        def changes(exporter: int, block: int) -> tuple[bool, NDArray[np.float64]]:
            """Whether a block of time starts in the bad state, and the times of changes [ns]."""
            stream = scene.draws.stream("loss bursts", exporter, block)
            bad = bool(stream.random() < self.mean_bad_s / (self.mean_good_s + self.mean_bad_s))
            means = np.tile([self.mean_good_s, self.mean_bad_s], 4 * CYCLES)
            means = means[int(bad) : len(means) - int(bad)]
            return bad, block * block_ns + np.cumsum(stream.exponential(means)) * 1e9

        def is_bad(rows: Rows) -> NDArray[np.bool_]:
            bad = np.zeros(len(rows), bool)
            exporters = int(rows["exporter"].max(initial=0)) + 2  # they count from -1
            where = (rows["end_ns"] // block_ns).astype(np.int64) * exporters + rows["exporter"] + 1
            found, at = np.unique(where, return_inverse=True)
            for number, (block, exporter) in enumerate(
                divmod(n, exporters) for n in found.tolist()
            ):
                exporter -= 1
                these = at == number
                first, times = changes(exporter, block)
                bad[these] = (np.searchsorted(times, rows["end_ns"][these]) + first) % 2 == 1
            return bad

        def lose(rows: Rows) -> Rows:
            chance = np.full(len(rows), self.good_probability)
            if self.burst_probability not in (None, self.good_probability):
                chance[is_bad(rows)] = self.burst_probability
            return rows[scene.uniform("record lost", rows) >= chance]

        return lose
