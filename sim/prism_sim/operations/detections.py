"""Policies of detection; a new kind is a class and one entry below."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from prism_sim.operations.failures import Failure, Symptom
from prism_sim.operations.measured import Measurable
from prism_sim.registry import Registry, by_literal


@dataclass(frozen=True)
class Detected:
    """A failure was detected ``after_s``, either ``by_hand`` or by the policy."""

    after_s: float
    by_hand: bool = False


class DetectionBase(Measurable):
    """A policy of detection. A platform may have several; the earliest counts."""

    @abstractmethod
    def detect(self, failure: Failure) -> Detected | None:
        """When this detects the failure, from its beginning; None: never."""

    def false_alarms(self, failures: Sequence[Failure]) -> float:
        """Expected false alarms during ``failures``."""
        return 0.0


class Timeout(DetectionBase):
    """Nothing but errors, people, and the time-out of the communication library.

    What every platform has. NCCL's time-out is 30 or 60 min in practice (arXiv 2509.16293).
    """

    kind: Literal["timeout"] = "timeout"
    error_s: float = Field(default=60, ge=0, description="time until an error is noticed [s]")
    timeout_s: float = Field(default=1800, gt=0, description="time-out of a collective [s]")
    notice_s: float = Field(default=86_400, gt=0)
    """time until a person notices a slow job [s]"""
    spike_s: float = Field(default=3600, gt=0)
    """time until a person notices a spike of the loss [s]"""

    def detect(self, failure: Failure) -> Detected:
        after_s = {
            "error": self.error_s,
            "hang": self.timeout_s,
            "slow": self.notice_s,
            "spike": self.spike_s,
            "manual": 0.0,
        }[failure.cause.symptom]
        return Detected(after_s, failure.cause.symptom in ("slow", "spike", "manual"))


class ZeroRdma(DetectionBase):
    """A job without RDMA traffic for some minutes hangs.

    ByteRobust's rule: no traffic for ten minutes (arXiv 2509.16293).
    """

    kind: Literal["zero_rdma"] = "zero_rdma"
    silence_s: float = Field(default=600, gt=0, description="time without traffic [s]")

    def detect(self, failure: Failure) -> Detected | None:
        return Detected(self.silence_s) if failure.cause.symptom == "hang" else None


class Inspection(DetectionBase):
    """Servers are inspected at short intervals.

    Finds causes on servers; ByteRobust's Table 3 has 2 to 60 s.
    """

    kind: Literal["inspection"] = "inspection"
    every_s: float = Field(default=30, gt=0, description="time until an inspection finds it [s]")
    coverage: float = Field(default=1, ge=0, le=1, description="part of errors that it sees")

    def detect(self, failure: Failure) -> Detected | None:
        visible = failure.cause.symptom == "error" and failure.cause.on_server
        return Detected(self.every_s) if visible and failure.found < self.coverage else None


class Diagnoser(DetectionBase):
    """A diagnoser with measured recall, precision and delay.

    Finds a part of the failures with symptoms that it sees, and raises false alarms.
    """

    kind: Literal["diagnoser"] = "diagnoser"
    recall: float = Field(ge=0, le=1, description="part of the failures that it finds")
    precision: float = Field(default=1, gt=0, le=1, description="part of its alarms that are true")
    delay_s: float = Field(default=60, ge=0, description="time until it finds a failure [s]")
    sees: tuple[Symptom, ...] = Field(default=("hang", "slow"), min_length=1)
    """symptoms that it can find"""

    def detect(self, failure: Failure) -> Detected | None:
        visible = failure.cause.symptom in self.sees and failure.found < self.recall
        return Detected(self.delay_s) if visible else None

    def false_alarms(self, failures: Sequence[Failure]) -> float:
        due = sum(failure.cause.symptom in self.sees for failure in failures)
        return due * self.recall * (1 - self.precision) / self.precision


class LossMonitor(DetectionBase):
    """A program watches the loss.

    Detects spikes of the loss, and values that are not numbers.
    """

    kind: Literal["loss_monitor"] = "loss_monitor"
    after_s: float = Field(default=60, gt=0, description="time until a spike is reported [s]")

    def detect(self, failure: Failure) -> Detected | None:
        return Detected(self.after_s) if failure.cause.symptom == "spike" else None


DETECTIONS: Registry[type[DetectionBase]] = Registry(
    "prism_sim.operations.detections",
    Timeout,
    ZeroRdma,
    Inspection,
    Diagnoser,
    LossMonitor,
    name_of=by_literal,
)
"""Each kind by its name in a study."""
