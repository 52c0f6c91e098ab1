"""Servers that have started already replace the faulty ones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations import theory
from prism_sim.operations.failure import Failure
from prism_sim.operations.recoveries.base import RecoveryBase


class Standby(RecoveryBase):
    """Their number is a quantile of the binomial distribution of faulty servers."""

    kind: Literal["standby"] = "standby"
    requeue_s: float = Field(default=768, ge=0, description="restart if no standby is left [s]")
    swap_s: float = Field(default=71, ge=0, description="restart with a standby server [s]")
    faulty: float = Field(default=0.0012, gt=0, lt=1, description="faulty part of the servers")
    quantile: float = Field(default=0.99, gt=0, lt=1, description="failures that standbys serve")

    def standby(self, servers: int) -> int:
        return theory.standby_size(servers, self.faulty, self.quantile)

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.swap_s if served else self.requeue_s
