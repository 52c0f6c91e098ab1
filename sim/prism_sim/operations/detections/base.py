"""The contract of a policy of detection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from prism_sim.operations.failure import Failure
from prism_sim.operations.measured import Measurable


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
