"""The time that a job stands still after a failure: detect, localise, restart."""

from __future__ import annotations

from collections import Counter

from prism_sim.operations.failures import Cause, Failure
from prism_sim.operations.policy import Policy
from prism_sim.operations.progress import Ledger

FALSE_ALARM = "false alarm"
ALARM = Failure(0.0, Cause(FALSE_ALARM, 0, "slow", False), 0, 0.0, 0.0, 0.0)
"""Stands for the failure that a false alarm reports."""


class Handling:
    """Handles failures of one job under ``policy``, and counts what that takes in ``ledger``."""

    def __init__(self, policy: Policy, servers: int, ledger: Ledger) -> None:
        self._policy, self._ledger = policy, ledger
        self._standby_back_s = [0.0] * policy.standby(servers)
        self._of_server: Counter[int] = Counter()

    def is_prevented(self, failure: Failure) -> bool:
        """Whether its server has been retired, and an ordinary one would not fail now."""
        limit = self._policy.retire_after
        return failure.repeated and limit is not None and self._of_server[failure.server] >= limit

    def detect_s(self, failure: Failure) -> float:
        """Time from the begin of ``failure`` to its detection."""
        detected = self._policy.detect(failure)
        self._ledger.detected.append((failure, detected))
        self._ledger.by_hand += detected.by_hand
        return detected.after_s

    def downtime_s(self, failure: Failure, now_s: float, known: bool) -> float:
        """Time that the job stands still; ``known`` if it was detected while the job ran."""
        recovery = self._policy.recover(failure)
        if failure is ALARM:
            self._ledger.false_alarms += 1
            return recovery.restart_s(ALARM, True)
        self._of_server[failure.server] += failure.cause.on_server
        detect_s = 0.0 if known else self.detect_s(failure)
        localise_s, attempts = 0.0, 1
        if recovery.searches and failure.cause.has_place:
            localise_s, attempts = self._localise(failure)
        elif failure.cause.symptom == "spike" and not recovery.rolls_back:
            localise_s = self._by_hand_s()
        # After a wrong replacement, the failure returns, and is detected again.
        recover_s = sum(
            recovery.restart_s(failure, self._served(failure, now_s)) for _ in range(attempts)
        )
        self._ledger.localise_s.append(localise_s)
        self._ledger.recover_s.append(recover_s)
        return attempts * detect_s + localise_s + failure.cause.drain_s + recover_s

    def _localise(self, failure: Failure) -> tuple[float, int]:
        """Time of the search, and restarts until the right server is replaced."""
        first = self._policy.localise(failure)
        self._ledger.by_hand += first.by_hand
        if failure.located < first.right:
            return first.takes_s, 1
        return first.takes_s + self._by_hand_s(), 2

    def _by_hand_s(self) -> float:
        self._ledger.by_hand += 1
        return self._policy.search.takes_s

    def _served(self, failure: Failure, now_s: float) -> bool:
        """Take standby servers for those that are evicted; false if there are too few."""
        number = self._policy.recover(failure).evicts(failure)
        free = [i for i, back_s in enumerate(self._standby_back_s) if back_s <= now_s]
        if len(free) < number:
            return False
        for index in free[:number]:
            self._standby_back_s[index] = now_s + failure.repair_s
        return True
