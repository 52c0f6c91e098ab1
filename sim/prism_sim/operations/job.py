"""One job under one policy, as a SimPy process that failures interrupt.

A failure that stops the job, in any phase, starts detection, localisation and recovery. A slow
failure leaves it running at a lower rate until it is detected. If the wrong server is replaced,
the failure returns at once, and is handled again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from prism_sim.operations.causes import Cause
from prism_sim.operations.drawing import failures_of, false_alarms_s
from prism_sim.operations.failure import Failure
from prism_sim.operations.ledger import Ledger
from prism_sim.operations.progress import Progress
from prism_sim.operations.study import Policy, Study
from prism_sim.operations.theory import SECONDS_A_DAY

FALSE_ALARM = "false alarm"
CHECKPOINT = "checkpoint"
Events = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class _Found:
    """A slow failure was detected."""

    failure: Failure


class Job:
    """A job under ``policy``; :meth:`run` returns what it lost and kept."""

    def __init__(self, study: Study, policy: Policy, seed: int) -> None:
        self._study, self._policy = study, policy
        self._env = simpy.Environment()
        self._failures = failures_of(study, seed)
        self._progress = Progress(policy.checkpoint.cadence(study.mttf_s))
        self._ledger = Ledger()
        self._slow: list[Failure] = []
        self._standby_back_s = [0.0] * policy.recovery.standby(study.servers)
        due = sum(f.cause.symptom in ("hang", "slow") for f in self._failures)
        alarms = policy.detection.false_alarms(due)
        self._alarms_s = false_alarms_s(seed, alarms, study.days)

    def run(self) -> tuple[Ledger, Progress]:
        """Simulate the days of the study."""
        self._process = self._env.process(self._work())
        self._env.process(self._fail())
        self._env.process(self._alarm())
        until_s = self._study.days * SECONDS_A_DAY
        self._env.run(until=until_s)
        if self._working:
            self._advance()
        self._ledger.lost_s[CHECKPOINT] = self._progress.stalled_s
        self._ledger.curve.append((until_s, self._progress.work_s))
        return self._ledger, self._progress

    def _fail(self) -> Events:
        for failure in self._failures:
            yield self._env.timeout(failure.at_s - self._env.now)
            self._process.interrupt(failure)

    def _alarm(self) -> Events:
        for at_s in self._alarms_s.tolist():
            yield self._env.timeout(at_s - self._env.now)
            self._process.interrupt(None)

    def _find(self, failure: Failure, after_s: float) -> Events:
        yield self._env.timeout(after_s)
        self._process.interrupt(_Found(failure))

    def _work(self) -> Events:
        """Work until something happens, and handle it."""
        forever = self._env.event()
        while True:
            self._working, self._since_s = True, self._env.now
            try:
                yield forever
            except simpy.Interrupt as interrupt:
                self._advance()
                cause = interrupt.cause
            if isinstance(cause, Failure) and cause.cause.symptom == "slow":
                self._slow_down(cause)
            elif not isinstance(cause, _Found) or cause.failure in self._slow:
                self._working = False
                yield from self._restart(cause)

    def _restart(self, cause: Failure | _Found | None) -> Events:
        """Detect, localise and recover; a failure meanwhile starts this from its beginning."""
        name = _name(cause)
        self._ledger.lost_s[name] += self._progress.lose(self._env.now)
        self._ledger.curve.append((self._env.now, self._progress.work_s))
        left_s = self._downtime(cause)
        while left_s > 0:
            began_s = self._env.now
            try:
                yield self._env.timeout(left_s)
                left_s = 0.0
            except simpy.Interrupt as interrupt:
                left_s -= self._env.now - began_s
                new = interrupt.cause
                self._ledger.lost_s[name] += self._env.now - began_s
                if isinstance(new, Failure) and new.cause.symptom == "slow":
                    self._slow_down(new)
                elif isinstance(new, Failure):
                    name, left_s = _name(new), self._downtime(new)
                elif isinstance(new, _Found) and new.failure in self._slow:
                    self._slow.remove(new.failure)  # this restart replaces its server, too
                continue
            self._ledger.lost_s[name] += self._env.now - began_s
        self._ledger.curve.append((self._env.now, self._progress.work_s))

    def _slow_down(self, failure: Failure) -> None:
        self._slow.append(failure)
        detected = self._policy.detection.detect(failure)
        self._ledger.detect_s.append(detected.after_s)
        self._ledger.by_hand += detected.by_hand
        self._env.process(self._find(failure, detected.after_s))

    def _downtime(self, cause: Failure | _Found | None) -> float:
        """Time that the job stands still [s]."""
        recovery = self._policy.recovery
        if cause is None:
            self._ledger.false_alarms += 1
            return recovery.restart_s(_ALARM, True)
        failure = cause.failure if isinstance(cause, _Found) else cause
        localisation = self._policy.localisation
        detect_s = 0.0
        if not isinstance(cause, _Found):
            detected = self._policy.detection.detect(failure)
            detect_s = detected.after_s
            self._ledger.detect_s.append(detect_s)
            self._ledger.by_hand += detected.by_hand
        else:
            self._slow.remove(failure)
        localise_s, tries = 0.0, 1
        if recovery.searches and failure.cause.on_server:
            tries = failure.tries(localisation.right)
            localise_s = tries * localisation.takes_s
            self._ledger.by_hand += tries * localisation.by_hand
        # Each wrong replacement costs a restart, after which the failure is detected again.
        recover_s = sum(recovery.restart_s(failure, self._served(failure)) for _ in range(tries))
        self._ledger.localise_s.append(localise_s)
        self._ledger.recover_s.append(recover_s)
        return tries * detect_s + localise_s + recover_s

    def _served(self, failure: Failure) -> bool:
        """Take standby servers for those that are evicted; false if there are too few."""
        number, now_s = self._policy.recovery.evicts(failure), self._env.now
        free = [i for i, back_s in enumerate(self._standby_back_s) if back_s <= now_s]
        if len(free) < number:
            return False
        for index in free[:number]:
            self._standby_back_s[index] = now_s + failure.repair_s
        return True

    def _advance(self) -> None:
        """Account for the work since the last event."""
        rate = 1 / (1 + self._study.failures.slowdown) if self._slow else 1.0
        now_s = self._env.now
        before_s = self._progress.stalled_s
        self._progress.advance(self._since_s, now_s, rate)
        working_s = now_s - self._since_s - (self._progress.stalled_s - before_s)
        if self._slow:
            self._ledger.lost_s[_name(self._slow[0])] += working_s * (1 - rate)


_ALARM = Failure(0.0, Cause(FALSE_ALARM, 0, "slow", False), 0, 0.0, 0.0, 0.0)


def _name(cause: Failure | _Found | None) -> str:
    if cause is None:
        return FALSE_ALARM
    return (cause.failure if isinstance(cause, _Found) else cause).cause.name
