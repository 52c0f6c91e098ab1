"""Work of a job and its checkpoints, in closed form over any undisturbed interval.

A job works for ``work_s`` and then saves, which stalls it for ``stall_s``. The work counts once it
is saved. Work is in seconds of a healthy job; a slow job does less than a second of it a second.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from prism_sim.operations.checkpoints import Cadence
from prism_sim.operations.detections import Detected
from prism_sim.operations.failures import Failure

_ROUNDING_S = 1e-6


@dataclass
class Progress:
    """Work that is ``saved_s``, work ``since_s`` the last checkpoint, time spent ``stalled_s``."""

    cadence: Cadence
    saved_s: float = 0.0
    since_s: float = 0.0
    stalled_s: float = 0.0
    saved_at_s: float = 0.0
    saving_s: float = 0.0

    @property
    def work_s(self) -> float:
        """All work that has not been lost."""
        return self.saved_s + self.since_s

    def advance(self, from_s: float, until_s: float, rate: float) -> None:
        """Work from ``from_s`` to ``until_s`` at ``rate`` seconds of work a second."""
        now_s = from_s
        while until_s - now_s > _ROUNDING_S:
            if self.saving_s > 0:
                now_s = self._save(now_s, until_s)
            elif self.since_s == 0 and (cycles := self._cycles(until_s - now_s, rate)):
                now_s += cycles * (self.cadence.work_s / rate + self.cadence.stall_s)
                self.saved_s += cycles * self.cadence.work_s
                self.stalled_s += cycles * self.cadence.stall_s
                self.saved_at_s = now_s
            else:
                now_s = self._work(now_s, until_s, rate)

    def lose(self, now_s: float) -> float:
        """Go back to the last checkpoint that can be restored; returns the lost work [s]."""
        lost_s = self.since_s
        self.since_s = self.saving_s = 0.0
        if now_s - self.saved_at_s < self.cadence.lag_s and self.saved_s:
            again_s = min(self.cadence.work_s, self.saved_s)
            self.saved_s -= again_s
            self.saved_at_s = now_s - self.cadence.lag_s
            lost_s += again_s
        return lost_s

    def roll_back(self, to_work_s: float) -> float:
        """Go back to the work ``to_work_s``, if there is more; returns the lost work [s]."""
        lost_s = max(0.0, self.work_s - to_work_s)
        if lost_s:
            self.saved_s, self.since_s, self.saving_s = max(0.0, to_work_s), 0.0, 0.0
        return lost_s

    def _cycles(self, left_s: float, rate: float) -> int:
        return int(left_s / (self.cadence.work_s / rate + self.cadence.stall_s))

    def _save(self, now_s: float, until_s: float) -> float:
        used_s = min(self.saving_s, until_s - now_s)
        self.saving_s -= used_s
        self.stalled_s += used_s
        if self.saving_s <= _ROUNDING_S:
            self._saved(now_s + used_s)
        return now_s + used_s

    def _work(self, now_s: float, until_s: float, rate: float) -> float:
        used_s = min((self.cadence.work_s - self.since_s) / rate, until_s - now_s)
        self.since_s += used_s * rate
        if self.since_s >= self.cadence.work_s - _ROUNDING_S:
            self.saving_s = self.cadence.stall_s
            if self.saving_s <= _ROUNDING_S:
                self._saved(now_s + used_s)
        return now_s + used_s

    def _saved(self, now_s: float) -> None:
        self.saved_s += self.since_s
        self.since_s = self.saving_s = 0.0
        self.saved_at_s = now_s


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
