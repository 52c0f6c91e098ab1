"""One rank that follows a program of tasks: every task begins as soon as it can.

The GPU computes one task at a time, and so does its host; of the ready tasks, the first in
the program begins. All other tasks overlap: a message is sent as soon as its task begins, even
if its receive is not posted, and a collective waits for the other members. When all tasks have
finished, the rank begins the next iteration.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Protocol

import numpy as np
import simpy

from prism_sim.clock import Clock
from prism_sim.scenario.graph import Graph, Task
from prism_sim.scenario.traced_job import TracedJobConfig
from prism_sim.training.compute import SpeedFactors
from prism_sim.training.steps import StepRecord
from prism_sim.truth import NO_MICRO_BATCH, SpanLog

Process = Generator[simpy.Event, object, None]

MessageKey = tuple[int, int, int, int, int]
"""Iteration, sender, receiver, tag, and sequence number of such messages."""


class PlayedJob(Protocol):
    """The interface of a job for its ranks: the clock, the records, and the other ranks."""

    env: Clock
    model: TracedJobConfig
    graph: Graph
    log: SpanLog
    record: StepRecord

    def arrival(self, key: MessageKey) -> simpy.Event:
        """The event of a message's arrival."""

    def send(
        self, src: int, dst: int, size_bytes: int, step: int, turn: int, event: simpy.Event
    ) -> None:
        """Send a message from rank ``src`` to ``dst``; ``event`` fires when it has arrived."""

    def join(self, rank: int, task: Task, iteration: int, turn: int, step: int) -> simpy.Event:
        """Let ``rank`` join its group's collective; the event fires at its end."""


class _Lane:
    """A unit that executes one task at a time: a GPU, or a host's CPU."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self.busy = False


class Player:
    """Executes the tasks of ``rank`` of a job.

    Parameters
    ----------
    job : the job.
    rank, number : number of the rank in the job, and of its worker in the log.
    program : the tasks of the rank in one iteration.
    """

    def __init__(self, job: PlayedJob, rank: int, number: int, program: Sequence[Task]) -> None:
        self.job = job
        self.first_rank = rank
        self.number = number
        self.speed_factors = SpeedFactors()
        self.step = 0
        self._program = program
        self._after: list[list[int]] = [[] for _ in program]
        for task_number, task in enumerate(program):
            for before in task.after:
                self._after[before].append(task_number)
        self._turns = _turns(program)
        self._lanes = {kind: _Lane() for kind in ("compute", "host")}
        self._waits: list[int] = []
        self._left: list[int] = []
        self._step_start_ns: dict[int, int] = {}
        self._begin_ns = [0] * len(program)
        self._iteration = 0
        self._over: simpy.Event | None = None
        self._at_step: dict[int, list[Callable[[], None]]] = {}

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when this rank begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def run(self) -> Process:
        """All iterations of the job, as a SimPy process."""
        job, env = self.job, self.job.env
        if job.model.start_s:
            yield env.timeout(round(job.model.start_s * 1e9))
        for self._iteration in range(job.model.iterations):
            self._over = env.event()
            self._waits = [len(task.after) for task in self._program]
            self._left = _tasks_by_step(self._program, job.graph.steps)
            for number, waits in enumerate(self._waits):
                if not waits:
                    self._begin(number)
            yield self._over

    def _step(self, task: Task) -> int:
        """Number of the step of ``task`` in this iteration."""
        return self._iteration * self.job.graph.steps + task.step

    def _begin(self, number: int) -> None:
        task = self._program[number]
        step = self._step(task)
        if step not in self._step_start_ns:
            self._step_start_ns[step] = self.job.env.now
            self.step = max(self.step, step)
            for call in self._at_step.pop(step, ()):
                call()
            self.job.record.begin(step)
        self._begin_ns[number] = self.job.env.now
        _BEGINNINGS[task.kind](self, number, task)

    def _end(self, number: int) -> None:
        """Record the end of a task, and begin the tasks that are now ready."""
        task, env = self._program[number], self.job.env
        self._left[task.step] -= 1
        if not self._left[task.step]:
            step = self._step(task)
            start_ns = self._step_start_ns.pop(step)
            self.job.record.done(self.first_rank, step, start_ns, env.now)
        for later in self._after[number]:
            self._waits[later] -= 1
            if not self._waits[later]:
                self._begin(later)
        if not any(self._left):
            assert self._over is not None
            env.fire(self._over)

    def _end_with(self, event: simpy.Event, number: int) -> None:
        """End the task when ``event`` happens, or now if it has happened."""
        if event.callbacks is None:
            event = self.job.env.timeout(0)
            assert event.callbacks is not None
        event.callbacks.append(lambda _: self._end(number))

    def _wait(self, number: int, task: Task) -> None:
        self._end_with(self.job.env.timeout(task.amount), number)

    def _compute(self, number: int, task: Task) -> None:
        heapq.heappush(self._lanes[task.kind].ready, number)
        self._next_on(task.kind)

    def _next_on(self, kind: str) -> None:
        lane = self._lanes[kind]
        if lane.busy or not lane.ready:
            return
        lane.busy = True
        number = heapq.heappop(lane.ready)
        task, env = self._program[number], self.job.env
        start_ns = env.now
        stall_ns = self.speed_factors.take_stall() if kind == "compute" else 0
        timeout = env.timeout(round(task.amount * self._duration_factor(kind)) + stall_ns)

        def over(_: simpy.Event) -> None:
            step = self._step(task)
            if env.now > start_ns:
                self.job.log.add(self.number, step, NO_MICRO_BATCH, kind, start_ns, env.now)
            lane.busy = False
            self._end(number)
            self._next_on(kind)

        assert timeout.callbacks is not None
        timeout.callbacks.append(over)

    def _duration_factor(self, kind: str) -> float:
        return self.speed_factors.duration_factor if kind == "compute" else 1.0

    def _send(self, number: int, task: Task) -> None:
        turn = self._turns[number]
        ends = (self.first_rank, task.peer)
        event = self.job.arrival((self._iteration, *ends, task.tag, turn))
        self.job.send(*ends, task.amount, self._step(task), turn, event)
        self._end_with(event, number)

    def _recv(self, number: int, task: Task) -> None:
        turn = self._turns[number]
        key = (self._iteration, task.peer, self.first_rank, task.tag, turn)
        self._end_with(self.job.arrival(key), number)

    def _collective(self, number: int, task: Task) -> None:
        event = self.job.join(
            self.first_rank, task, self._iteration, self._turns[number], self._step(task)
        )
        self._end_with(event, number)


def _turns(program: Sequence[Task]) -> list[int]:
    """For each task, the number of earlier ones like it: messages to a peer, calls of a group."""
    seen: dict[object, count[int]] = defaultdict(count)
    return [next(seen[task.kind, task.family, task.peer, task.tag]) for task in program]


def _tasks_by_step(program: Sequence[Task], steps: int) -> list[int]:
    """How many tasks of ``program`` belong to each of the ``steps`` of the trace."""
    counted: list[int] = np.bincount([task.step for task in program], minlength=steps).tolist()
    return counted


_BEGINNINGS: dict[str, Callable[[Player, int, Task], None]] = {
    "compute": Player._compute,
    "host": Player._compute,
    "wait": Player._wait,
    "send": Player._send,
    "recv": Player._recv,
    "collective": Player._collective,
}
"""The function that begins each kind of task."""
