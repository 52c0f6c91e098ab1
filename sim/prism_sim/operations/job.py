"""One job under one policy, as a SimPy process that failures interrupt.

A failure that stops the job, in any phase, starts detection, localisation and recovery. A slow
failure leaves it running at a lower rate until it is detected; a spike of the loss leaves it
running in vain. A failure that has not been detected survives restarts for other reasons.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from prism_sim.draws import Draws
from prism_sim.operations.failures import Cause, Failure, draw_servers
from prism_sim.operations.handling import ALARM, Handling
from prism_sim.operations.intervals import Known
from prism_sim.operations.policy import Policy
from prism_sim.operations.progress import Ledger, Progress
from prism_sim.operations.study import Study
from prism_sim.operations.theory import SECONDS_A_DAY

CHECKPOINT = "checkpoint"
Events = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class _Found:
    """A failure that let the job run was detected."""

    failure: Failure


class Job:
    """A job under ``policy``; :meth:`run` returns what it lost and kept."""

    def __init__(self, study: Study, policy: Policy, seed: int) -> None:
        self._study, self._policy = study, policy
        self._env = simpy.Environment()
        self._failures = failures_of(study, seed)
        self._restarts = 0
        self._progress = Progress(policy.checkpoint.cadence(Known(study.mttf_s)))
        self._ledger = Ledger()
        self._handling = Handling(policy, study.servers, self._ledger)
        self._running: dict[Failure, float] = {}
        self._down: str | None = None
        self._since_s = 0.0
        alarms = sum(kind.false_alarms(self._failures) for kind in policy.detection)
        self._alarms_s = false_alarms_s(seed, alarms, study.days)

    def run(self) -> tuple[Ledger, Progress]:
        """Simulate the days of the study."""
        self._process = self._env.process(self._work())
        self._env.process(self._fail())
        self._env.process(self._alarm())
        until_s = self._study.days * SECONDS_A_DAY
        self._env.run(until=until_s)
        if self._down is None:
            self._advance()
        else:
            self._ledger.lost_s[self._down] += until_s - self._since_s
        self._ledger.lost_s[CHECKPOINT] = self._progress.stalled_s
        self._ledger.curve.append((until_s, self._progress.work_s))
        return self._ledger, self._progress

    def _fail(self) -> Events:
        for failure in self._failures:
            yield self._at(failure.at_s)
            if not self._handling.is_prevented(failure):
                self._process.interrupt(failure)

    def _alarm(self) -> Events:
        for at_s in self._alarms_s.tolist():
            yield self._at(at_s)
            self._process.interrupt(ALARM)

    def _at(self, time_s: float) -> simpy.Timeout:
        """The event at a time; sums of times are rounded, so it may be past by as little."""
        return self._env.timeout(max(0.0, time_s - self._env.now))

    def _find(self, failure: Failure, after_s: float) -> Events:
        yield self._env.timeout(after_s)
        self._process.interrupt(_Found(failure))

    def _work(self) -> Events:
        """Work until something happens, and handle it."""
        forever = self._env.event()
        while True:
            self._down, self._since_s = None, self._env.now
            try:
                yield forever
            except simpy.Interrupt as interrupt:
                self._advance()
                cause: Any = interrupt.cause
            if isinstance(cause, Failure) and _lets_run(cause):
                self._let_run(cause)
            elif not isinstance(cause, _Found) or cause.failure in self._running:
                yield from self._restart(cause)

    def _restart(self, cause: Failure | _Found) -> Events:
        """Detect, localise and recover; a failure meanwhile starts this from its beginning."""
        failure = cause.failure if isinstance(cause, _Found) else cause
        self._lose(failure)
        left_s = self._handle(cause)
        while left_s > 0:
            name = failure.cause.name
            self._down, self._since_s = name, self._env.now
            try:
                yield self._env.timeout(left_s)
                left_s = 0.0
            except simpy.Interrupt as interrupt:
                left_s -= self._env.now - self._since_s
                new = interrupt.cause
            else:
                new = None
            self._ledger.lost_s[name] += self._env.now - self._since_s
            if isinstance(new, Failure) and _lets_run(new):
                self._let_run(new)
            elif isinstance(new, Failure):
                failure, left_s = new, self._handle(new)
            elif isinstance(new, _Found) and new.failure in self._running:
                self._lose(new.failure)
                del self._running[new.failure]  # this restart replaces its server, too
        self._ledger.curve.append((self._env.now, self._progress.work_s))

    def _lose(self, failure: Failure) -> None:
        """Go back to a checkpoint: the last one, or the last one before a spike of the loss."""
        lost_s = self._progress.lose(self._env.now)
        if failure.cause.symptom == "spike" and failure in self._running:
            lost_s += self._progress.roll_back(self._running[failure])
        self._ledger.lost_s[failure.cause.name] += lost_s
        self._ledger.curve.append((self._env.now, self._progress.work_s))

    def _handle(self, cause: Failure | _Found) -> float:
        """Time that the job stands still [s]."""
        self._restarts += 1
        known = Known(self._study.mttf_s, self._env.now, self._restarts)
        self._progress.cadence = self._policy.checkpoint.cadence(known)
        found = isinstance(cause, _Found)
        failure = cause.failure if isinstance(cause, _Found) else cause
        self._running.pop(failure, None)
        return self._handling.downtime_s(failure, self._env.now, found)

    def _let_run(self, failure: Failure) -> None:
        self._running[failure] = self._progress.saved_s
        self._env.process(self._find(failure, self._handling.detect_s(failure)))

    def _advance(self) -> None:
        """Account for the work since the last event."""
        slow = [one for one in self._running if one.cause.symptom == "slow"]
        rate = 1 / (1 + self._study.failures.slowdown) if slow else 1.0
        now_s = self._env.now
        before_s = self._progress.stalled_s
        self._progress.advance(self._since_s, now_s, rate)
        working_s = now_s - self._since_s - (self._progress.stalled_s - before_s)
        if slow:
            self._ledger.lost_s[slow[0].cause.name] += working_s * (1 - rate)


def _lets_run(failure: Failure) -> bool:
    return failure is not ALARM and failure.cause.symptom in ("slow", "spike")


# Draws the failures of one replication: the same for every policy.


def failures_of(study: Study, seed: int) -> list[Failure]:
    """The failures of the study's job, by time."""
    draws = Draws(seed)
    return _recorded(study, draws) if study.failures.outages else _drawn(study, draws)


def false_alarms_s(seed: int, number: float, days: float) -> npt.NDArray[np.float64]:
    """Times of false alarms, of which ``number`` are expected."""
    if number <= 0:
        return np.zeros(0)
    stream = Draws(seed).stream("false alarms")
    size = int(number + 10 * number**0.5 + 20)
    times_s = np.cumsum(stream.exponential(size=size)) * days * SECONDS_A_DAY / number
    return times_s[times_s < days * SECONDS_A_DAY]


def _drawn(study: Study, draws: Draws) -> list[Failure]:
    setting, ends_s = study.failures, study.days * SECONDS_A_DAY
    expected = int(ends_s / study.mttf_s)
    size = expected + 10 * int(expected**0.5) + 50
    between = setting.between.unit(draws.stream("time between failures"), size)
    while between.sum() * study.mttf_s < ends_s:
        size *= 2
        between = setting.between.unit(draws.stream("time between failures"), size)
    times_s = np.cumsum(between) * study.mttf_s
    size = int(np.searchsorted(times_s, ends_s))
    kinds = setting.kinds()
    counts = np.array([kind.count for kind in kinds], dtype=float)
    which = draws.stream("cause").choice(len(kinds), size, p=counts / counts.sum())
    servers, repeated = draw_servers(draws.stream("server"), study.servers, size, setting.offenders)
    repair_s = setting.repair.unit(draws.stream("repair"), size) * setting.repair_s
    luck = (draws.stream(name).random(size) for name in ("found", "located"))
    columns = (times_s[:size], which, servers, repair_s, *luck, repeated)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Failure(at, kinds[kind], *rest) for at, kind, *rest in rows]


def _recorded(study: Study, draws: Draws) -> list[Failure]:
    """Failures of a trace: the job has some of its servers, and begins at some time of it."""
    trace, outages = study.failures.trace, study.failures.outages
    cluster = trace.servers if trace else study.servers
    names = sorted({outage.server for outage in outages})
    places = dict(zip(names, draws.stream("server").permutation(cluster).tolist(), strict=False))
    spare_days = max(outage.until_days for outage in outages) - study.days
    begin_days = draws.stream("begin").random() * spare_days
    found, located = (draws.stream(name).random(len(outages)) for name in ("found", "located"))
    failures = []
    for index, outage in enumerate(outages):
        at_days, server = outage.from_days - begin_days, places[outage.server]
        if 0 <= at_days < study.days and server < study.servers:
            cause = Cause(outage.cause, 1, outage.symptom, True)
            repair_s = (outage.until_days - outage.from_days) * SECONDS_A_DAY
            luck = float(found[index]), float(located[index])
            failures.append(Failure(at_days * SECONDS_A_DAY, cause, server, repair_s, *luck))
    return failures
