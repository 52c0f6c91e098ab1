"""A campaign: faults drawn at random, as often, as long and as unevenly as published figures say.

Faults arrive as a renewal process with gamma-distributed times between them: they come in bursts
where the coefficient of variation is above 1. A few places have a large share of all faults. The
kind of each is drawn by weight.

References: the public trace of InfiniteHBD (400 servers, 348 days) for the rate, the variation and
the share of the worst servers; Hu et al., Characterization of large language model development in
the datacenter, NSDI'24 (Acme), for the default weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from prism_sim.draws import Draws
from prism_sim.faults import KINDS, FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean

SECONDS_A_DAY = 86_400.0
MOST = 10_000
"""Faults of a campaign, at most."""

ACME: dict[str, float] = {
    "flapping_nic": 147,  # connection errors
    "degraded_nvlink": 54,  # NVLink errors
    "crash": 49,  # CUDA 21, node 16, ECC 12
    "stopped_nic": 12,  # network errors
    "slow_storage": 10,  # S3
    "hang": 9,  # NCCL time-outs 6, NCCL remote errors 3
}
"""Cases of each kind among the infrastructure failures of Acme."""


Factor = Annotated[float, Field(ge=1e-6, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e12)]


class Campaign(Closed):
    """Faults drawn at random."""

    per_1000_node_days: float = Field(default=4.2, ge=1e-9, le=1e12)
    """Faults in 1,000 days of a server. Default: 4.2 (InfiniteHBD)."""
    acceleration: float = Field(default=1.0, ge=1e-9, le=1e12)
    """Faults come this many times as often: a short simulation stands for a long time."""
    variation: float = Field(default=1.76, ge=0.05, le=20)
    """Coefficient of variation of the time between faults; 1: a Poisson process, above: bursts.
    Default: 1.76 (InfiniteHBD)."""
    worst_servers: float = Field(default=0.0575, ge=0, le=1)
    """Fraction of places with more faults. Default: 23 of 400 (InfiniteHBD)."""
    worst_share: float = Field(default=0.28, ge=0, le=1)
    """Share of the faults that happen there. Default: 0.28 (InfiniteHBD)."""
    lasts_s: float = Field(default=60.0, ge=1e-6, le=1e8)
    """Median length of a fault's window [s]."""
    lasts_sigma: float = Field(default=1.0, ge=0, le=4)
    """Sigma of the lognormal length."""
    factors: tuple[Factor, Factor] = (0.5, 0.95)
    """Lowest and highest severity: the fraction of the healthy speed that is left."""
    until_s: float | None = Field(default=None, ge=1e-9, le=1e8)
    """No fault begins after this time [s]. Left out: duration_s."""
    kinds: dict[str, Weight] = Field(default=ACME, min_length=1)
    """Weight of each kind of fault. Default: the infrastructure failures of Acme (NSDI'24)."""

    @model_validator(mode="after")
    def _possible(self) -> Campaign:
        low, high = self.factors
        if low > high:
            raise ValueError(f"factors {low:g} to {high:g} are no range: the first is larger")
        for kind in self.kinds:
            if kind not in KINDS:
                hint = did_you_mean(kind, KINDS)
                raise ValueError(f"there is no kind of fault {kind!r}; {hint}")
        if not any(self.kinds.values()):
            raise ValueError("all weights are 0")
        return self

    def remarks(self, setting: Setting) -> Remarks:
        """Errors of the campaign in this scenario; locations are relative to it."""
        if self.until_s is None and setting.duration_s is None:
            what = "the campaign has no end"
            yield Remark(("until_s",), what, "add until_s, or duration_s", (("duration_s",),))
            return
        expected = self._per_s(setting) * self._until_s(setting)
        if expected > MOST:
            what = f"the campaign has about {expected:,.0f} faults; at most {MOST:,} are possible"
            yield Remark(("acceleration",), what, "lower it", (("duration_s",),))

    def faults(self, setting: Setting, seed: int) -> list[FaultBase]:
        """The faults of the campaign, in order of time.

        A drawn kind that cannot happen in this scenario, such as slow storage without storage
        servers, is left out.
        """
        draws, until_s = Draws(seed), self._until_s(setting)
        found: list[FaultBase] = []
        for number, from_s in enumerate(self._times_s(setting, draws)):
            if from_s >= until_s or len(found) == MOST:
                break
            fault = self._fault(setting, draws, number, from_s)
            if fault is not None:
                found.append(fault)
        return found

    def _times_s(self, setting: Setting, draws: Draws) -> Iterator[float]:
        """When faults begin: a renewal process of the given mean and variation, without end."""
        shape = 1 / self.variation**2
        mean_s, at_s = 1 / self._per_s(setting), 0.0
        for number in count():
            stream = draws.stream("campaign time", number)
            at_s += max(mean_s * stream.gamma(shape) / shape, 1e-6)
            yield at_s

    def _fault(
        self, setting: Setting, draws: Draws, number: int, from_s: float
    ) -> FaultBase | None:
        stream = draws.stream("campaign fault", number)
        weights = np.array([*self.kinds.values()], float)
        kind = str(stream.choice([*self.kinds], p=weights / weights.sum()))
        lasts_s = self.lasts_s * float(np.exp(self.lasts_sigma * stream.standard_normal()))
        drawing = Drawing(
            stream,
            setting,
            self._position(draws, stream, setting.cluster.servers),
            round(from_s, 9),
            round(from_s + max(lasts_s, 1e-6), 9),
            round(float(stream.uniform(*self.factors)), 6),
        )
        try:
            fault = KINDS[kind].model_validate(KINDS[kind].drawn(drawing))
        except ValueError:  # pydantic's is one too
            return None
        return None if any(True for _ in fault.remarks(setting)) else fault

    def _position(self, draws: Draws, stream: np.random.Generator, places: int) -> float:
        """A position in [0, 1): one of the worst places with their share, otherwise any."""
        worst = round(self.worst_servers * places)
        chance, anywhere = stream.random(2)
        if worst and chance < self.worst_share:
            number = int(anywhere * worst)
            return float(draws.stream("campaign place", number).random())
        return float(anywhere)

    def _per_s(self, setting: Setting) -> float:
        days = SECONDS_A_DAY * 1000
        return self.per_1000_node_days * self.acceleration * setting.cluster.servers / days

    def _until_s(self, setting: Setting) -> float:
        return self.until_s or setting.duration_s or 0.0
