"""The contract of a policy of detection."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from pydantic import Field

from prism_sim.operations.failure import Failure
from prism_sim.scenario.base import Closed


@dataclass(frozen=True)
class Detected:
    """A failure was detected ``after_s``, either ``by_hand`` or by the policy."""

    after_s: float
    by_hand: bool = False


class DetectionBase(Closed):
    """A policy of detection; without a better one, a failure shows itself as below."""

    error_s: float = Field(default=60, ge=0, description="time until an error is noticed [s]")
    timeout_s: float = Field(default=1800, gt=0, description="time-out of a collective [s]")
    notice_s: float = Field(
        default=86_400, gt=0, description="time until a person notices a slow job [s]"
    )

    @abstractmethod
    def detect(self, failure: Failure) -> Detected:
        """When the failure is detected, from its beginning."""

    def false_alarms(self, due: float) -> float:
        """False alarms that come with ``due`` failures that only a diagnosis can see."""
        return 0.0

    def shown(self, failure: Failure) -> Detected:
        """When the failure is detected without any rule."""
        after_s = {
            "error": self.error_s,
            "hang": self.timeout_s,
            "slow": self.notice_s,
            "manual": 0.0,
        }[failure.cause.symptom]
        return Detected(after_s, failure.cause.symptom in ("slow", "manual"))
