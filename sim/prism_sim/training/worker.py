"""One tensor-parallel group at work: the SimPy process that everything else serves.

The ranks of a tensor-parallel group move in lock-step, so one process plays them all: it
computes, passes activations on and gradients back, joins the collectives of its
data-parallel group, and updates its parameters, step after step. Receives are posted ahead,
so a message flies as soon as its data exist and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import simpy

from prism_sim.training.costs import StageCost, buckets
from prism_sim.training.schedules import FORWARD, Work
from prism_sim.training.stream import CommStream
from prism_sim.truth import KIND, NO_MICRO_BATCH

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob

FWD, BWD, OPT = KIND["fwd"], KIND["bwd"], KIND["opt"]

Process = Generator[simpy.Event, object, None]
Key = tuple[int, int, int]  # step, pass, micro-batch


@dataclass
class Way:
    """Where a message to a neighbouring stage travels: one flow a rank of the group."""

    bundle: int
    latency_ns: int


@dataclass(eq=False)
class Worker:
    """The tensor-parallel group at (pp, dp) of a job.

    ``ahead`` and ``behind`` are the workers of the next and the previous stage;
    ``way_ahead`` and ``way_behind`` lead to them.
    """

    job: TrainingJob
    stage: int
    replica: int
    number: int
    first_rank: int
    cost: StageCost
    work: list[Work]
    stream: CommStream | None
    ahead: Worker | None = None
    behind: Worker | None = None
    way_ahead: Way | None = None
    way_behind: Way | None = None
    slowdowns: list[float] = field(default_factory=list)
    inbox: dict[Key, simpy.Event] = field(default_factory=dict)
    _at_step: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    _collectives: int = 0

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when this worker begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def run(self) -> Process:
        """All steps of the job, as a SimPy process."""
        job, env = self.job, self.job.env
        self._buckets = buckets(job.model, self.cost.parameters)
        if job.model.start_s:
            yield env.timeout(round(job.model.start_s * 1e9))
        for step in range(job.model.steps):
            if step:
                yield env.timeout(job.overhead_ns(self.first_rank, step))
            self._begin(step)
            start_ns = env.now
            yield from self._passes(step)
            yield from self._update(step)
            job.step_done(self.number, step, start_ns, env.now)

    def _begin(self, step: int) -> None:
        for call in self._at_step.pop(step, ()):
            call()
        self.job.began(step)

    def _passes(self, step: int) -> Process:
        """Forward and backward of every micro-batch, in the schedule's order."""
        env, log, number = self.job.env, self.job.log, self.number
        nominal_ns = np.array([[self.cost.forward_ns], [self.cost.backward_ns]])
        healthy_ns = (nominal_ns * self.job.jitter(self.first_rank, step)).tolist()
        last = self.work[-1]
        for work in self.work:
            kind, mb = work
            forward = kind == FORWARD
            if (self.behind if forward else self.ahead) is not None:
                yield self._arrival((step, kind, mb))
            start_ns = env.now
            wait_ns = round(healthy_ns[kind][mb] * self._slowness())
            if work is last and self.stream is not None and self.job.model.overlap_gradients:
                yield from self._fill_buckets(step, wait_ns)
            else:
                yield env.timeout(wait_ns)
            log.add(number, step, mb, FWD if forward else BWD, start_ns, env.now)
            self._pass_on(step, kind, mb)

    def _slowness(self) -> float:
        return 1.0 / float(np.prod(self.slowdowns)) if self.slowdowns else 1.0

    def _arrival(self, key: Key) -> simpy.Event:
        """The event of a message's arrival; whoever comes first, sender or receiver, makes it."""
        event = self.inbox.pop(key, None)
        if event is None:
            event = self.inbox[key] = self.job.env.event()
        return event

    def _pass_on(self, step: int, kind: int, micro_batch: int) -> None:
        """Send an activation to the next stage, or a gradient to the previous one."""
        to, way = (
            (self.ahead, self.way_ahead) if kind == FORWARD else (self.behind, self.way_behind)
        )
        if to is None or way is None:
            return
        sender, receiver, log = self.number, to.number, self.job.log

        def over(start_ns: int, end_ns: int) -> int:
            arrived_ns = end_ns + way.latency_ns
            log.add_message(sender, receiver, step, micro_batch, kind, start_ns, arrived_ns)
            return 0

        self.job.fabric.transfer(
            way.bundle,
            self.job.flow_bytes,
            way.latency_ns,
            to._arrival((step, kind, micro_batch)),
            over,
        )

    def _fill_buckets(self, step: int, duration_ns: int) -> Process:
        """The last backward pass, joining a collective whenever a bucket is full."""
        total, filled, passed_ns = sum(self._buckets), 0, 0
        for size in self._buckets:
            filled += size
            until_ns = duration_ns * filled // total
            yield self.job.env.timeout(until_ns - passed_ns)
            passed_ns = until_ns
            self._join(self.job.reduction, size * self.job.model.gradient_bytes, step)

    def _update(self, step: int) -> Process:
        """Reduce gradients (or wait until they are), update, gather parameters."""
        job = self.job
        if self.stream is not None:
            if not job.model.overlap_gradients:
                for size in self._buckets:
                    self._join(job.reduction, size * job.model.gradient_bytes, step)
            yield self._last_joined
        start_ns = job.env.now
        yield job.env.timeout(round(self.cost.optimizer_ns))
        job.log.add(self.number, step, NO_MICRO_BATCH, OPT, start_ns, job.env.now)
        if self.stream is not None and job.model.zero_stage:
            for size in self._buckets:
                self._join("all_gather", size * job.model.parameter_bytes, step)
            yield self._last_joined

    def _join(self, operation: str, size_bytes: int, step: int) -> None:
        assert self.stream is not None
        self._last_joined = self.stream.join(
            self._collectives, operation, size_bytes, self.replica, step
        )
        self._collectives += 1
