"""The lives of a job: it runs until a rank fails, and again from what was saved last.

A rank that fails falls silent. What it has sent still arrives; everybody who needs something
new of it waits, as a collective library does, until somebody notices and stops them all. The
next life has new processes and so new connections. Its steps go on in number, for a step is
counted when it is made, also if it repeats one that was lost.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

from prism_sim.scenario.habits import Restart

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob
    from prism_sim.training.worker import Worker

Process = Generator[simpy.Event, object, None]


class Lives:
    """Lets ``job`` fail and begin again as its scenario says."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self._env = job.env

    def run(self) -> Process:
        """All lives of the job, as a SimPy process."""
        job, env = self._job, self._env
        for restart in job.model.restarts:
            processes = self._begin()
            failed = self._when_it_fails(restart, processes)
            over = env.all_of(processes)
            yield over | failed
            if not failed.triggered:
                return
            yield env.timeout(round(restart.noticed_after_s * 1e9))
            for process in processes:
                _stop(process)
            down_ns = round(restart.down_s * 1e9)
            job.network.observer.job_restarts(job.model.name, env.now + down_ns, env.now)
            yield env.timeout(down_ns)
            job.begin_anew()
        yield env.all_of(self._begin())

    def _begin(self) -> list[simpy.Process]:
        return [self._env.process(_mortal(worker.run())) for worker in self._job.workers]

    def _when_it_fails(self, restart: Restart, processes: list[simpy.Process]) -> simpy.Event:
        """The event of the failure; it never happens if its step does not come in this life."""
        job, env = self._job, self._env
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


def inherit(heir: Worker, worker: Worker, step: int) -> None:
    """Pass on to ``heir``, who begins with ``step``, what has befallen ``worker``."""
    heir.slowdowns = worker.slowdowns
    for due, calls in worker.hooks():
        for call in calls:
            heir.at_step(max(due, step), call)


def _mortal(process: Process) -> Process:
    try:
        yield from process
    except simpy.Interrupt:
        return


def _stop(process: simpy.Process) -> None:
    if process.is_alive:
        process.interrupt()
