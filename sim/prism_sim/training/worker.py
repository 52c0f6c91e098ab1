"""The worker of one tensor-parallel group: a SimPy process.

The ranks of a tensor-parallel group work in lock-step, so one process represents all of them. It
follows its schedule, sends activations and gradients, joins the collectives of its
passes and of its data-parallel strategy, and updates its parameters, step after step. Receives
are posted ahead, so a message starts as soon as its data exist.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.fabric import Over
from prism_sim.training.compute import ComputeSpeed
from prism_sim.training.context import JobContext
from prism_sim.training.costs import StageCost
from prism_sim.training.data_parallel import DataParallel
from prism_sim.training.groups import FinalCollective
from prism_sim.training.habits import Habit
from prism_sim.training.messages import MESSAGE_SPANS, MessagePath, SendQueue
from prism_sim.training.program import PLAIN, Await, Compute, ExtraLoad, Join, Program
from prism_sim.training.schedules import FORWARD, PASS_SPANS, Work
from prism_sim.truth import NO_MICRO_BATCH

UPDATE, EVALUATION = "opt", "eval_fwd"
"""Kinds of spans of the optimizer's update, and of an evaluation's passes."""
EVALUATION_PASS = 3
"""In the keys of an evaluation's messages, this replaces the kind of work."""

Process = Generator[simpy.Event, object, None]
Key = tuple[int, int, int, int]  # step, pass, micro-batch, chunk


class Peer(NamedTuple):
    """The receiver of a pass's result: worker, path, and chunk."""

    worker: Worker
    path: MessagePath
    chunk: int


class PlannedPass(NamedTuple):
    """One pass of a step, with everything that is known in advance.

    ``row`` is its row in tables of durations; ``waits`` whether it needs a message first;
    ``program`` its instructions, None if it only computes.
    """

    work: Work
    row: int
    waits: bool
    program: Program | None
    peer: Peer | None


class Measured(NamedTuple):
    """Measured durations of one worker, in place of computed ones.

    ``passes_ns`` has shape (steps, kinds x chunks, micro-batches), ``optimizer_ns`` (steps,).
    """

    passes_ns: NDArray[np.int64]
    optimizer_ns: NDArray[np.int64]


@dataclass(eq=False)
class Worker:
    """The tensor-parallel group number ``member`` of a stage of a job.

    Attributes
    ----------
    context : shared with the other workers.
    number, first_rank : its number in the log, and its first rank.
    replicas : its part in the data-parallel strategy.
    nominal_ns : healthy duration of each kind of pass (fastest running: chunk), shape
        (kinds x chunks, 1); ``measured`` is used in place of it.
    flow_bytes : size of a pipeline message of nominal length, on one of its connections.
    habits : activities of the job besides its steps.
    plan : a step's passes, in order.
    final : the collectives between the last reduction of gradients and the update.
    slowdowns : factors on its speed.
    step : the step that it is in, or begins next.
    """

    context: JobContext
    stage: int
    member: int
    number: int
    first_rank: int
    cost: StageCost
    replicas: DataParallel
    nominal_ns: NDArray[np.float64]
    flow_bytes: int
    habits: Sequence[Habit]
    plan: list[PlannedPass] = field(default_factory=list)
    final: list[FinalCollective] = field(default_factory=list)
    measured: Measured | None = None
    slowdowns: ComputeSpeed = field(default_factory=ComputeSpeed)
    inbox: dict[Key, simpy.Event] = field(default_factory=dict)
    step: int = 0
    _lengths: list[float] | None = None
    _at_step: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    _queues: dict[int, SendQueue] = field(default_factory=dict)

    @property
    def server(self) -> int:
        """The server of its first rank."""
        context = self.context
        return context.layout.server_of_gpu(int(context.gpus[self.stage, self.member, 0]))

    @property
    def parameters(self) -> int:
        """Parameters of one rank, without experts."""
        return sum(self.cost.parameters)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one rank's experts."""
        return sum(sum(chunk.expert_parameters) for chunk in self.cost.chunks)

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when this worker begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def take_over(self, before: Worker, step: int) -> None:
        """Replace ``before``, whose attempt ended; the first step is ``step``."""
        self.slowdowns = before.slowdowns
        for due, calls in sorted(before._at_step.items()):
            for call in calls:
                self.at_step(max(due, step), call)

    def abandon(self) -> None:
        """End with the attempt: messages that wait for others are not sent."""
        for queue in self._queues.values():
            queue.abandon()

    def run(self) -> Process:
        """All steps of the job's present attempt, as a SimPy process."""
        context, env = self.context, self.context.env
        config, steps = context.config, context.progress.steps
        if not steps.start and config.start_s:
            yield env.timeout(round(config.start_s * 1e9))
        for step in steps:
            if step != steps.start:
                overhead_ns = context.compute.overhead_ns(self.first_rank, step)
                self._vary(step, overhead_ns - config.step_overhead_ms * 1e6)
                yield env.timeout(overhead_ns)
            for habit in self.habits:
                yield from habit.before(self, step)
            self._begin(step)
            start_ns = env.now
            self.replicas.begin(step)
            yield from self._passes(step)
            yield from self._update(step)
            context.steps.done(self.first_rank, step, start_ns, env.now)
            for habit in self.habits:
                yield from habit.after(self, step)
        for habit in self.habits:
            yield from habit.finish(self)

    def evaluate(self, step: int, micro_batches: int) -> Process:
        """Forward passes of ``micro_batches``, chunk by chunk; nothing is sent back."""
        env, log = self.context.env, self.context.log
        self._lengths = None
        forwards = {item.work.chunk: item for item in self.plan if item.work.kind == FORWARD}
        for chunk, item in sorted(forwards.items()):
            nominal_ns = float(self.nominal_ns[item.row, 0])
            for mb in range(micro_batches):
                if item.waits:
                    yield self._receive((step, EVALUATION_PASS, mb, chunk))
                start_ns = env.now
                wait_ns = round(nominal_ns * self.slowdowns.slowness)
                yield from self._follow(item.program or PLAIN, wait_ns, step, mb)
                log.add(self.number, step, mb, EVALUATION, start_ns, env.now)
                if item.peer is not None:
                    key = (step, EVALUATION_PASS, mb, item.peer.chunk)
                    self._send(item.peer, key, self.flow_bytes)

    def _begin(self, step: int) -> None:
        self.step = step
        for call in self._at_step.pop(step, ()):
            call()
        self.context.steps.begin(step)

    def _vary(self, step: int, extra_ns: float) -> None:
        """Record by how much random variation makes the own work of ``step`` longer."""
        self.context.steps.vary(self.first_rank, step, extra_ns)

    def _passes(self, step: int) -> Process:
        """All passes of the step's micro-batches, in the schedule's order."""
        env, log, number = self.context.env, self.context.log, self.number
        rows = len(self.nominal_ns)
        healthy_ns = self._healthy_ns(step, rows)
        for work, row, waits, program, peer in self.plan:
            kind, mb, chunk = work
            if waits:
                yield self._receive((step, kind, mb, chunk))
            if self.slowdowns.held is not None:
                yield self.slowdowns.held
            start_ns = env.now
            wait_ns = round(healthy_ns[row][mb] * self.slowdowns.slowness)
            wait_ns += self.slowdowns.take_stall()
            if program is None:
                yield env.timeout(wait_ns)
            else:
                yield from self._follow(program, wait_ns, step, mb)
            log.add(number, step, mb, PASS_SPANS[kind], start_ns, env.now)
            if peer is not None:
                self._pass_on(peer, step, kind, mb)

    def _healthy_ns(self, step: int, rows: int) -> list[list[float]]:
        """Duration of every pass if nothing is slow, by row and micro-batch."""
        compute, nominal_ns = self.context.compute, self.nominal_ns
        if self.measured is not None:
            nominal_ns = self.measured.passes_ns[step]
        healthy_ns = nominal_ns * compute.noise(self.first_rank, self.server, step, rows)
        warm_up = 1.0
        if self.context.config.warm_up_steps:
            warm_up = compute.warm_up(step, self.context.progress.steps.start)
            healthy_ns = healthy_ns * warm_up
        self._lengths = compute.lengths(self.member, step)
        if self._lengths is not None:
            tokens = np.array(self._lengths)
            chunks = self.cost.chunks
            square = np.array([chunks[row % len(chunks)].quadratic for row in range(rows)])[:, None]
            healthy_ns = healthy_ns * ((1 - square) * tokens + square * tokens**2)
        self._vary(step, float((healthy_ns - nominal_ns * warm_up).sum()))
        times: list[list[float]] = healthy_ns.tolist()
        return times

    def _optimizer_ns(self, step: int) -> int:
        if self.measured is not None:
            return int(self.measured.optimizer_ns[step])
        return round(self.cost.optimizer_ns)

    def _follow(self, program: Program, duration_ns: int, step: int, micro_batch: int) -> Process:
        """A pass that computes for ``duration_ns`` and follows ``program``."""
        env, pending, passed_ns, extra_ns = self.context.env, self.replicas.pending, 0, 0
        for instruction in program:
            match instruction:
                case Compute(until):
                    until_ns = duration_ns * until.numerator // until.denominator
                    takes_ns = until_ns - passed_ns + extra_ns
                    yield env.timeout(max(0, takes_ns))
                    passed_ns, extra_ns = until_ns, min(0, takes_ns)
                case ExtraLoad(load, part):
                    extra_ns += round(float(part) * duration_ns * (load() - 1))
                case Join(communicator, operation, size_bytes, slot, activations, layer):
                    of = micro_batch if activations else NO_MICRO_BATCH
                    if activations and self._lengths is not None:
                        size_bytes = round(size_bytes * self._lengths[micro_batch])
                    ended = communicator.join(operation, size_bytes, step, of, layer)
                    if slot:
                        pending[slot] = ended
                case Await(slot):
                    if slot in pending:
                        yield pending.pop(slot)

    def _receive(self, key: Key) -> simpy.Event:
        """Post the receive of a message; returns the event of its arrival."""
        arrival = self._arrival(key)
        if self.context.rendezvous is not None:
            self.context.rendezvous.post_receive((self.number, *key))
        return arrival

    def _arrival(self, key: Key) -> simpy.Event:
        """The event of a message's arrival; created on first use, by sender or receiver."""
        event = self.inbox.pop(key, None)
        if event is None:
            event = self.inbox[key] = self.context.env.event()
        return event

    def _pass_on(self, peer: Peer, step: int, kind: int, micro_batch: int) -> None:
        """Send an activation to the next stage, or a gradient to the previous one."""
        to, path, chunk = peer
        sender, receiver, log = self.number, to.number, self.context.log

        def over(start_ns: int, end_ns: int) -> int:
            arrived_ns = end_ns + path.latency_ns
            kinds = MESSAGE_SPANS[kind]
            log.add_message(sender, receiver, step, micro_batch, kinds, start_ns, arrived_ns)
            return 0

        size_bytes = self.flow_bytes
        if self._lengths is not None:
            size_bytes = max(1, round(size_bytes * self._lengths[micro_batch]))
        self._send(peer, (step, kind, micro_batch, chunk), size_bytes, over)

    def _send(self, peer: Peer, key: Key, size_bytes: int, over: Over | None = None) -> None:
        to, path, _ = peer
        arrival, fabric, rendezvous = to._arrival(key), self.context.fabric, self.context.rendezvous
        if rendezvous is None:
            queue = self._queues.get(path.bundle)
            if queue is None:
                queue = self._queues[path.bundle] = SendQueue(fabric, path)
            queue.send(size_bytes, arrival, over)
            return
        size_bytes += rendezvous.control_bytes  # the header

        def start() -> simpy.Event:
            fabric.transfer(path.bundle, size_bytes, path.latency_ns, arrival, over)
            return arrival

        key_of_all = (to.number, *key)
        rendezvous.request_send(key_of_all, self.number, to.number, path.routes, start)

    def _update(self, step: int) -> Process:
        """Reduce gradients (or wait for the reductions), update, gather parameters."""
        env, log = self.context.env, self.context.log
        yield from self.replicas.settle(step)
        for communicator, operation, size_bytes in self.final:
            yield communicator.join(operation, size_bytes, step, NO_MICRO_BATCH)
        start_ns = env.now
        yield env.timeout(self._optimizer_ns(step))
        log.add(self.number, step, NO_MICRO_BATCH, UPDATE, start_ns, env.now)
        yield from self.replicas.publish(step)
