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

from prism_sim.cluster.sequence_tables import SequenceTables
from prism_sim.training.compute import SpeedFactors
from prism_sim.training.context import JobContext
from prism_sim.training.costs import StageCost
from prism_sim.training.data_parallel import DataParallel
from prism_sim.training.groups import FinalCollective
from prism_sim.training.habits import Habit
from prism_sim.training.messages import Mail, Message
from prism_sim.training.plan import Part, PlannedPass
from prism_sim.training.program import PLAIN, Await, Compute, ExtraLoad, Join, Program
from prism_sim.training.schedules import FORWARD, PASS_SPANS
from prism_sim.truth import NO_MICRO_BATCH

UPDATE, EVALUATION = "opt", "eval_fwd"
"""Kinds of spans of the optimizer's update, and of an evaluation's passes."""

Process = Generator[simpy.Event, object, None]


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
    mail : its messages to and from other stages.
    sequence, pieces : its sequence in the fabric, and the first piece of its plan there.
    plan, programs, parts : a step's passes, in order; their programs; and their parts.
    final : the collectives between the last reduction of gradients and the update.
    speed_factors : factors on its speed.
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
    mail: Mail
    sequence: int
    pieces: int = 0
    plan: Sequence[PlannedPass] = ()
    programs: Sequence[Program | None] = ()
    parts: Sequence[Part] = ()
    final: list[FinalCollective] = field(default_factory=list)
    measured: Measured | None = None
    speed_factors: SpeedFactors = field(default_factory=SpeedFactors)
    step: int = 0
    _lengths: list[float] | None = None
    _at_step: dict[int, list[Callable[[], None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.speed_factors.on_change = self._take_speed
        self._take_speed()

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
        self.speed_factors = before.speed_factors
        self._row["stall_ns"] = before._row["stall_ns"]
        self.__post_init__()
        for due, calls in sorted(before._at_step.items()):
            for call in calls:
                self.at_step(max(due, step), call)

    def abandon(self) -> None:
        """End with the attempt: messages that wait for others are not sent."""
        self.mail.abandon()

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
        """Forward passes of ``micro_batches``, chunk by chunk; nothing is sent back.

        Stages that hold the same parts share them.
        """
        env, log = self.context.env, self.context.log
        self._lengths = None
        forwards = {item.work.chunk: item for item in self.plan if item.work.kind == FORWARD}
        for chunk, item in sorted(forwards.items()):
            nominal_ns = float(self.nominal_ns[chunk, 0])
            program = self.programs[item.program] or PLAIN
            for mb in range(-(-micro_batches // self.context.config.copies)):
                if item.mailbox >= 0:
                    arrival = self.mail.receive(self._evaluated(chunk), step, mb)
                    if arrival is not None:
                        yield arrival
                start_ns = env.now
                wait_ns = round(nominal_ns * self.speed_factors.duration_factor)
                yield from self._follow(program, wait_ns, step, [mb])
                log.add(self.number, step, mb, EVALUATION, start_ns, env.now)
                if item.receiver is not None:
                    link, mailbox = item.receiver
                    to = self._evaluated(mailbox // self.context.config.micro_batches)
                    self.mail.send(link, Message(to, self.flow_bytes, step, mb, None))

    def _evaluated(self, chunk: int) -> int:
        """The mailbox of an evaluation's passes through ``chunk``, after those of the steps."""
        return len(self.nominal_ns) * self.context.config.micro_batches + chunk

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
        self._set_durations(step)
        for first, stop, plain in self.parts:
            if plain:
                yield from self._stretch(self.pieces + first, self.pieces + stop)
            else:
                yield from self._pass(self.plan[first:stop], step)

    def _stretch(self, first: int, stop: int) -> Process:
        """The passes from piece ``first`` to before ``stop``, which compiled code follows."""
        fabric = self.context.fabric
        ended: simpy.Event | None = fabric.play(self.sequence, first, stop)
        try:
            while (waits_for := ended or self.speed_factors.held) is not None:
                yield waits_for
                ended = fabric.resume(self.sequence) if self._row["piece"] < stop else None
        except simpy.Interrupt:
            fabric.stop(self.sequence)
            raise

    def _pass(self, items: Sequence[PlannedPass], step: int) -> Process:
        """One pass, or two beside each other, which may have a program."""
        env, program = self.context.env, self.programs[items[0].program]
        for item in items:
            if item.mailbox >= 0:
                arrival = self.mail.receive(item.mailbox, step, item.work.micro_batch)
                if arrival is not None:
                    yield arrival
        if self.speed_factors.held is not None:
            yield self.speed_factors.held
        start_ns, wait_ns = env.now, self._take_duration_ns(items)
        if program is None:
            yield env.timeout(wait_ns)
        else:
            micro_batches = [item.work.micro_batch for item in items]
            yield from self._follow(program, wait_ns, step, micro_batches)
        for work, _, _, _, receiver in items:
            kind, mb = PASS_SPANS[work.kind], work.micro_batch
            self.context.log.add(self.number, step, mb, kind, start_ns, env.now)
            if receiver is not None:
                size_bytes = int(self._tables.now.size_bytes[self._row["sizes"] + mb])
                message = Message(receiver.mailbox, size_bytes, step, mb, work.direction)
                self.mail.send(receiver.link, message)

    def _take_duration_ns(self, items: Sequence[PlannedPass]) -> int:
        """Time that ``items`` compute, and the stall before them."""
        row, duration_factor = self._row, self.speed_factors.duration_factor
        healthy_ns = self._tables.now.duration_ns[row["durations"] :]
        stall_ns, row["stall_ns"] = int(row["stall_ns"]), 0
        return stall_ns + sum(round(float(healthy_ns[i.duration]) * duration_factor) for i in items)

    @property
    def _tables(self) -> SequenceTables:
        return self.context.fabric.tables

    @property
    def _row(self) -> np.void:
        row: np.void = self._tables.now.sequence[self.sequence]
        return row

    def _take_speed(self) -> None:
        """Pass changes of the speed to the sequence."""
        row, speed = self._row, self.speed_factors
        row["duration_factor"] = speed.duration_factor
        row["stall_ns"] += speed.take_stall()
        row["held"] = speed.held is not None

    def _set_durations(self, step: int) -> None:
        """Set the duration of every pass of ``step`` if nothing is slow, and sizes of messages."""
        rows, row, tables = len(self.nominal_ns), self._row, self._tables.now
        row["step"], before = step, self._lengths
        healthy_ns = self._healthy_ns(step, rows)
        first = row["durations"]
        tables.duration_ns[first : first + healthy_ns.size] = healthy_ns.ravel()
        if self._lengths is not None or before is not None:
            lengths = self._lengths or [1.0] * self.context.config.micro_batches
            sizes = [max(1, round(self.flow_bytes * length)) for length in lengths]
            tables.size_bytes[row["sizes"] : row["sizes"] + len(sizes)] = sizes

    def _healthy_ns(self, step: int, rows: int) -> NDArray[np.float64]:
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
        extra_ns = (healthy_ns - nominal_ns * warm_up).ravel()
        self._vary(step, float(extra_ns[sorted(item.duration for item in self.plan)].sum()))
        return healthy_ns

    def _optimizer_ns(self, step: int) -> int:
        if self.measured is not None:
            return int(self.measured.optimizer_ns[step])
        return round(self.cost.optimizer_ns)

    def _follow(
        self, program: Program, duration_ns: int, step: int, micro_batches: Sequence[int]
    ) -> Process:
        """Passes of ``micro_batches`` that compute for ``duration_ns`` and follow ``program``."""
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
                case Join(communicator, operation, size_bytes, slot, activations, layer, turn):
                    of = micro_batches[turn] if activations else NO_MICRO_BATCH
                    if activations and self._lengths is not None:
                        size_bytes = round(size_bytes * self._lengths[micro_batches[turn]])
                    ended = communicator.join(operation, size_bytes, step, of, layer)
                    if slot:
                        pending[slot] = ended
                case Await(slot):
                    if slot in pending:
                        yield pending.pop(slot)

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
