"""Restarts of a job: it runs until a rank fails, and continues from the last saved state.

A rank that fails stops at once. Its sent messages still arrive. Every other rank waits as soon as
it needs something from the failed one, as with a collective library, until the failure is detected
and all are stopped. The next attempt has new processes and so new connections. Its steps continue
the count: each step is counted, also if it repeats one that was lost.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import simpy

from prism_sim.cluster.network import Network
from prism_sim.scenario.habits import Restart
from prism_sim.training.worker import Worker

Process = Generator[simpy.Event, object, None]


class Restartable(Protocol):
    """A job that can restart.

    Attributes
    ----------
    network : the cluster; its observer is notified.
    workers : those of the present attempt.
    """

    network: Network

    @property
    def workers(self) -> Sequence[Worker]: ...

    def worker_of(self, rank: int) -> Worker: ...

    def restart(self) -> None:
        """Make new workers and connections, for the iterations that no checkpoint holds."""


def attempts(job: Restartable, name: str, restarts: Sequence[Restart]) -> Process:
    """All attempts of the job called ``name``, as a SimPy process."""
    env = job.network.env
    for restart in restarts:
        processes = _begin(job)
        failed = _failure(job, restart, processes)
        over = env.all_of(processes)
        yield over | failed
        if not failed.triggered:
            return
        yield env.timeout(round(restart.noticed_after_s * 1e9))
        for process in processes:
            _stop(process)
        down_ns = round(restart.down_s * 1e9)
        job.network.observer.job_restarts(name, env.now + down_ns, env.now)
        yield env.timeout(down_ns)
        job.restart()
    yield env.all_of(_begin(job))


def _begin(job: Restartable) -> list[simpy.Process]:
    env = job.network.env
    return [env.process(_interruptible(worker.run())) for worker in job.workers]


def _failure(job: Restartable, restart: Restart, processes: list[simpy.Process]) -> simpy.Event:
    """The event of the failure; it never happens if its step is not part of this attempt."""
    env = job.network.env
    victim = job.worker_of(restart.rank)
    process = processes[job.workers.index(victim)]
    failed = env.event()

    def fail() -> None:
        if process.is_alive:
            _stop(process)
            failed.succeed()

    def begin() -> None:
        env.call_at(env.now + round(restart.into_step_s * 1e9), fail)

    victim.at_step(restart.step, begin)
    return failed


def _interruptible(process: Process) -> Process:
    try:
        yield from process
    except simpy.Interrupt:
        return


def _stop(process: simpy.Process) -> None:
    if process.is_alive:
        process.interrupt()
