"""What a replication counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from prism_sim.operations.detections import Detected
from prism_sim.operations.failure import Failure


@dataclass
class Ledger:
    """Times in seconds of the whole job.

    Attributes
    ----------
    lost_s : wall-clock time without progress, by cause; lost work is counted as time.
    detected : each failure, and when it was detected, by time.
    localise_s, recover_s : of each failure that was handled.
    by_hand : interventions of people.
    false_alarms : restarts without a failure.
    curve : time and kept work at each restart.
    """

    lost_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    detected: list[tuple[Failure, Detected]] = field(default_factory=list)
    localise_s: list[float] = field(default_factory=list)
    recover_s: list[float] = field(default_factory=list)
    by_hand: int = 0
    false_alarms: int = 0
    curve: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
