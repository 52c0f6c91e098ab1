"""Restarts of a job: it runs until a rank fails, and continues from the last saved state.

A rank that fails stops at once. Its sent messages still arrive. Every other rank waits as soon as
it needs something from the failed one, as with a collective library, until the failure is detected
and all are stopped. The next attempt has new processes and so new connections. Its steps continue
the count: each step is counted, also if it repeats one that was lost.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, cast

import simpy

from prism_sim.cluster.network import Network
from prism_sim.cluster.sequence_tables import Stretch
from prism_sim.collector.delay import HORIZON_NS
from prism_sim.scenario.habits import Restart
from prism_sim.training.worker import Worker

Process = Generator[simpy.Event, object, None]
Awaited = tuple[simpy.Event | None, int]
"""What a process waits for: an event, and the piece of its sequence whose message it needs."""
STILL_NS = 2 * HORIZON_NS // 5
"""Ranks of which none goes on for so long wait for each other; the wire carries nothing [ns]."""


class Failure(NamedTuple):
    """A failure of an attempt: when it is noticed, and how long the job is down then [ns].

    The job does not restart if ``down_ns`` is None. ``planned`` is whether it is one of the job's
    ``restarts``.
    """

    noticed_after_ns: int
    down_ns: int | None
    planned: bool = False


class Restartable(Protocol):
    """A job that can restart.

    Attributes
    ----------
    network : the cluster; its observer is notified.
    workers : those of the present attempt.
    supervision : the present attempt.
    failures : when each attempt failed, how long until it was noticed, whether it was planned.
    """

    failures: list[tuple[int, int, bool]]
    network: Network
    supervision: Supervision

    @property
    def workers(self) -> Sequence[Worker]: ...

    def worker_of(self, rank: int) -> Worker: ...

    def abandon(self, failed_ns: int) -> None:
        """Write what was sent of collectives and messages that nobody will finish.

        A rank, or its NIC, stopped at ``failed_ns``.
        """

    def restart(self) -> None:
        """Make new workers and connections, for the iterations that no checkpoint holds."""


@dataclass
class Supervision:
    """The present attempt of a job.

    Attributes
    ----------
    processes : those of its workers, in their order.
    failed : fires when the attempt fails, with the :class:`Failure`; None before the first.
    """

    processes: list[simpy.Process] = field(default_factory=list)
    failed: simpy.Event | None = None

    def fail(self, failure: Failure) -> None:
        """Let the attempt fail, unless it has ended or failed."""
        running = any(process.is_alive for process in self.processes)
        if running and self.failed is not None and not self.failed.triggered:
            self.failed.succeed(failure)


def attempts(
    job: Restartable, name: str, restarts: Sequence[Restart], *, lasting: bool = False
) -> Process:
    """All attempts of the job called ``name``, as a SimPy process.

    ``lasting`` is whether it may also fail at times that are not planned.
    """
    env, planned = job.network.env, [*restarts]
    while planned or lasting:
        processes = _begin(job)
        failed = env.event()
        job.supervision = Supervision(processes, failed)
        if planned:
            _plan(job, planned[0])
        over = env.all_of(processes)
        yield over | failed
        if not failed.triggered:
            return
        failure = cast(Failure, failed.value)
        job.failures.append((env.now, failure.noticed_after_ns, failure.planned))
        yield from _until_noticed(job, processes, failure.noticed_after_ns)
        for process in processes:
            stop(process)
        if failure.down_ns is None:
            return
        job.network.observer.job_restarts(name, env.now + failure.down_ns, env.now)
        yield env.timeout(failure.down_ns)
        planned = planned[failure.planned :]
        job.restart()
    yield env.all_of(_begin(job))


def _until_noticed(
    job: Restartable, processes: Sequence[simpy.Process], noticed_after_ns: int
) -> Process:
    """Let the other ranks go on until the failure is noticed, and write what they left unfinished.

    It is written as soon as all of them wait for each other: later, other records would have
    overtaken it.
    """
    env, left_ns, waited_for = job.network.env, noticed_after_ns, _waited_for(processes)
    failed_ns = env.now
    while left_ns > STILL_NS:
        yield env.timeout(STILL_NS)
        left_ns -= STILL_NS
        before, waited_for = waited_for, _waited_for(processes)
        if waited_for is not None and waited_for == before:
            job.abandon(failed_ns)
            yield env.timeout(left_ns)
            return
    yield env.timeout(left_ns)
    job.abandon(failed_ns)


def _waited_for(processes: Sequence[simpy.Process]) -> list[Awaited] | None:
    """What each of ``processes`` waits for; None if one of them waits for a time, as it works."""
    waits: list[Awaited] = []
    for process in processes:
        event = process.target
        piece = event.awaits if isinstance(event, Stretch) else -1
        if piece is None or isinstance(event, simpy.Timeout):
            return None
        waits.append((event, piece))
    return waits


def _begin(job: Restartable) -> list[simpy.Process]:
    env = job.network.env
    return [env.process(_interruptible(worker.run())) for worker in job.workers]


def _plan(job: Restartable, restart: Restart) -> None:
    """Let the attempt fail in a step; nothing happens if the step is not part of it."""
    env, supervision = job.network.env, job.supervision
    victim = job.worker_of(restart.rank)
    process = supervision.processes[job.workers.index(victim)]
    times_ns = (round(restart.noticed_after_s * 1e9), round(restart.down_s * 1e9))

    def fail() -> None:
        if process.is_alive:
            stop(process)
            supervision.fail(Failure(*times_ns, planned=True))

    def begin() -> None:
        env.call_at(env.now + round(restart.into_step_s * 1e9), fail)

    victim.at_step(restart.step, begin)


def _interruptible(process: Process) -> Process:
    try:
        yield from process
    except simpy.Interrupt:
        return


def stop(process: simpy.Process) -> None:
    if process.is_alive:
        process.interrupt()
