"""One tensor-parallel group at work: the SimPy process that everything else serves.

The ranks of a tensor-parallel group move in lock-step, so one process plays them all: it
walks through its schedule, passes activations on and gradients back, joins the collectives
that its passes and its data-parallel strategy ask for, and updates its parameters, step after
step. Receives are posted ahead, so a message flies as soon as its data exist and waits for
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.fabric import Over
from prism_sim.training.costs import StageCost
from prism_sim.training.data_parallel import DataParallel
from prism_sim.training.program import PLAIN, Await, Burden, Compute, Join, Joins, Program
from prism_sim.training.schedules import FORWARD, Work
from prism_sim.truth import KIND, NO_MICRO_BATCH

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob

OPT, EVAL = KIND["opt"], KIND["eval_fwd"]
EVALUATION = 3
"""Stands for a kind of work in the keys of an evaluation's messages."""
SPANS = (KIND["fwd"], KIND["bwd"], KIND["wgrad"])
"""Span kind of each kind of work."""

Process = Generator[simpy.Event, object, None]
Key = tuple[int, int, int, int]  # step, pass, micro-batch, chunk


@dataclass
class Way:
    """Where a message to another stage travels: one flow a rank of the group."""

    bundle: int
    latency_ns: int
    routes: tuple[int, ...] = ()


class Peer(NamedTuple):
    """Who a pass's result goes to, on which way, and for which of its chunks."""

    worker: Worker
    way: Way
    chunk: int


class Closing(NamedTuple):
    """A collective that everything waits for before the update."""

    seat: Joins
    operation: str
    size_bytes: int


class Item(NamedTuple):
    """One piece of work with all that is known of it beforehand.

    ``row`` is its row in tables of durations; ``waits`` whether a message must come first;
    ``program`` what happens inside, None for nothing but computing.
    """

    work: Work
    row: int
    waits: bool
    program: Program | None
    peer: Peer | None


class Measured(NamedTuple):
    """Durations of one worker that were measured rather than worked out.

    ``passes_ns`` has shape (steps, kinds x chunks, micro-batches), ``optimizer_ns`` (steps,).
    """

    passes_ns: NDArray[np.int64]
    optimizer_ns: NDArray[np.int64]


@dataclass(eq=False)
class Worker:
    """The tensor-parallel group number ``member`` of a stage of a job.

    ``agenda`` is a step's work, ``closing`` the collectives between the last reduction of
    gradients and the update. ``nominal_ns`` has the healthy duration of each kind of pass
    (fastest running: chunk), shape (kinds x chunks, 1); ``measured`` what stands in for it.
    """

    job: TrainingJob
    stage: int
    member: int
    number: int
    first_rank: int
    cost: StageCost
    replicas: DataParallel
    nominal_ns: NDArray[np.float64]
    agenda: list[Item] = field(default_factory=list)
    closing: list[Closing] = field(default_factory=list)
    measured: Measured | None = None
    slowdowns: list[float] = field(default_factory=list)
    inbox: dict[Key, simpy.Event] = field(default_factory=dict)
    _lengths: list[float] | None = None
    _at_step: dict[int, list[Callable[[], None]]] = field(default_factory=dict)

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when this worker begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def hooks(self) -> list[tuple[int, list[Callable[[], None]]]]:
        """What is still to be called, by step."""
        return sorted(self._at_step.items())

    def run(self) -> Process:
        """All steps of the job's present life, as a SimPy process."""
        job, env, steps = self.job, self.job.env, self.job.steps_ahead
        if not steps.start and job.model.start_s:
            yield env.timeout(round(job.model.start_s * 1e9))
        for step in steps:
            if step != steps.start:
                yield env.timeout(job.overhead_ns(self.first_rank, step))
            for habit in job.habits:
                yield from habit.before(self, step)
            self._begin(step)
            start_ns = env.now
            self.replicas.begin(step)
            yield from self._passes(step)
            yield from self._update(step)
            job.step_done(self.number, step, start_ns, env.now)
            for habit in job.habits:
                yield from habit.after(self, step)
        for habit in job.habits:
            yield from habit.finish(self)

    def evaluate(self, step: int, micro_batches: int) -> Process:
        """Forward passes of ``micro_batches``, chunk by chunk; nothing comes back."""
        env, log = self.job.env, self.job.log
        self._lengths = None
        forwards = {item.work.chunk: item for item in self.agenda if item.work.kind == FORWARD}
        for chunk, item in sorted(forwards.items()):
            nominal_ns = float(self.nominal_ns[item.row, 0])
            for mb in range(micro_batches):
                if item.waits:
                    yield self._receive((step, EVALUATION, mb, chunk))
                start_ns = env.now
                wait_ns = round(nominal_ns * self._slowness())
                yield from self._follow(item.program or PLAIN, wait_ns, step, mb)
                log.add(self.number, step, mb, EVAL, start_ns, env.now)
                if item.peer is not None:
                    key = (step, EVALUATION, mb, item.peer.chunk)
                    self._send(item.peer, key, self.job.flow_bytes)

    def _begin(self, step: int) -> None:
        for call in self._at_step.pop(step, ()):
            call()
        self.job.began(step)

    def _passes(self, step: int) -> Process:
        """All passes of the step's micro-batches, in the schedule's order."""
        env, log, number = self.job.env, self.job.log, self.number
        rows = len(self.nominal_ns)
        healthy_ns = self._healthy_ns(step, rows)
        for work, row, waits, program, peer in self.agenda:
            kind, mb, chunk = work
            if waits:
                yield self._receive((step, kind, mb, chunk))
            start_ns = env.now
            wait_ns = round(healthy_ns[row][mb] * self._slowness())
            if program is None:
                yield env.timeout(wait_ns)
            else:
                yield from self._follow(program, wait_ns, step, mb)
            log.add(number, step, mb, SPANS[kind], start_ns, env.now)
            if peer is not None:
                self._pass_on(peer, step, kind, mb)

    def _healthy_ns(self, step: int, rows: int) -> list[list[float]]:
        """Duration of every pass if nothing is slow, by row and micro-batch."""
        job = self.job
        nominal_ns = self.nominal_ns
        if self.measured is not None:
            nominal_ns = self.measured.passes_ns[step]
        healthy_ns = nominal_ns * job.jitter(self.first_rank, step, rows)
        if job.model.warm_up_steps:
            healthy_ns = healthy_ns * job.warmth(step)
        self._lengths = job.lengths(self.member, step)
        if self._lengths is not None:
            tokens = np.array(self._lengths)
            chunks = self.cost.chunks
            square = np.array([chunks[row % len(chunks)].quadratic for row in range(rows)])[:, None]
            healthy_ns = healthy_ns * ((1 - square) * tokens + square * tokens**2)
        times: list[list[float]] = healthy_ns.tolist()
        return times

    def _optimizer_ns(self, step: int) -> int:
        if self.measured is not None:
            return int(self.measured.optimizer_ns[step])
        return round(self.cost.optimizer_ns)

    def _slowness(self) -> float:
        return 1.0 / float(np.prod(self.slowdowns)) if self.slowdowns else 1.0

    def _follow(self, program: Program, duration_ns: int, step: int, micro_batch: int) -> Process:
        """A pass that computes for ``duration_ns`` and does as ``program`` says meanwhile."""
        env, pending, passed_ns, extra_ns = self.job.env, self.replicas.pending, 0, 0
        for instruction in program:
            match instruction:
                case Compute(until):
                    until_ns = duration_ns * until.numerator // until.denominator
                    takes_ns = until_ns - passed_ns + extra_ns
                    yield env.timeout(max(0, takes_ns))
                    passed_ns, extra_ns = until_ns, min(0, takes_ns)
                case Burden(load, part):
                    extra_ns += round(float(part) * duration_ns * (load() - 1))
                case Join(seat, operation, size_bytes, slot, activations, layer):
                    of = micro_batch if activations else NO_MICRO_BATCH
                    if activations and self._lengths is not None:
                        size_bytes = round(size_bytes * self._lengths[micro_batch])
                    ended = seat.join(operation, size_bytes, step, of, layer)
                    if slot:
                        pending[slot] = ended
                case Await(slot):
                    if slot in pending:
                        yield pending.pop(slot)

    def _receive(self, key: Key) -> simpy.Event:
        """Be ready for a message; the event of its arrival."""
        arrival = self._arrival(key)
        if self.job.meetings is not None:
            self.job.meetings.post((self.number, *key))
        return arrival

    def _arrival(self, key: Key) -> simpy.Event:
        """The event of a message's arrival; whoever comes first, sender or receiver, makes it."""
        event = self.inbox.pop(key, None)
        if event is None:
            event = self.inbox[key] = self.job.env.event()
        return event

    def _pass_on(self, peer: Peer, step: int, kind: int, micro_batch: int) -> None:
        """Send an activation on, or a gradient back."""
        to, way, chunk = peer
        sender, receiver, log = self.number, to.number, self.job.log

        def over(start_ns: int, end_ns: int) -> int:
            arrived_ns = end_ns + way.latency_ns
            log.add_message(sender, receiver, step, micro_batch, kind, start_ns, arrived_ns)
            return 0

        size_bytes = self.job.flow_bytes
        if self._lengths is not None:
            size_bytes = max(1, round(size_bytes * self._lengths[micro_batch]))
        self._send(peer, (step, kind, micro_batch, chunk), size_bytes, over)

    def _send(self, peer: Peer, key: Key, size_bytes: int, over: Over | None = None) -> None:
        to, way, _ = peer
        arrival, fabric, meetings = to._arrival(key), self.job.fabric, self.job.meetings
        if meetings is None:
            fabric.transfer(way.bundle, size_bytes, way.latency_ns, arrival, over)
            return
        size_bytes += meetings.control_bytes  # the header

        def start() -> simpy.Event:
            fabric.transfer(way.bundle, size_bytes, way.latency_ns, arrival, over)
            return arrival

        meetings.offer((to.number, *key), self.number, to.number, way.routes, start)

    def _update(self, step: int) -> Process:
        """Reduce gradients (or wait until they are), update, gather parameters."""
        job = self.job
        yield from self.replicas.settle(step)
        for seat, operation, size_bytes in self.closing:
            yield seat.join(operation, size_bytes, step, NO_MICRO_BATCH)
        start_ns = job.env.now
        yield job.env.timeout(self._optimizer_ns(step))
        job.log.add(self.number, step, NO_MICRO_BATCH, OPT, start_ns, job.env.now)
        yield from self.replicas.publish(step)
