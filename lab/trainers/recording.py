"""One rank's part of a job: how long it computes, and what it records.

Computation is a wait of the length that the scenario gives it, with the scenario's jitter, so
that two cores serve many ranks. Processor time that the rank really spends in a pass is a part of
that length. Whatever the rank does is recorded with the machine's clock.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

from lab.plan import JobPlan

STEP = "step "
"""How the name of a step begins in the trace of a profiler."""


class RankRecorder:
    """Records one rank's steps and spans, and reports the start of each step.

    Attributes
    ----------
    plan, rank : the job, and which of its ranks this is.
    stage, member, tensor : its place in the job's layout.
    mark : names what happens in a block to a profiler, if there is one.
    """

    def __init__(self, plan: JobPlan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self.stage, self.member, self.tensor = plan.place(rank)
        self.mark: Callable[[str], AbstractContextManager[Any]] = lambda _name: nullcontext()
        self._step = 0
        self._spans: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    @property
    def step(self) -> int:
        return self._step

    def steps(self) -> Iterator[int]:
        """Yield the numbers of the steps, and record when each starts and ends."""
        for step in range(self.plan.steps):
            self._step = step
            self._overhead(step)
            start_ns = time.time_ns()
            self._report(step)
            with self.mark(f"{STEP}{step}"):
                yield step
            self._steps.append({"step": step, "start_ns": start_ns, "end_ns": time.time_ns()})
        self._report(self.plan.steps)

    @contextmanager
    def span(self, kind: str, **also: Any) -> Iterator[None]:
        """Record what happens in the block as one span."""
        start_ns = time.time_ns()
        yield
        self.add_span(kind, start_ns, time.time_ns(), **also)

    def add_span(self, kind: str, start_ns: int, end_ns: int, **also: Any) -> None:
        row = {"step": self._step, "kind": kind, "start_ns": start_ns, "end_ns": end_ns}
        self._spans.append(row | also)

    @contextmanager
    def optimizer(self) -> Iterator[None]:
        """The update: what is done in the block, and a wait for the rest of its time."""
        start_s = time.monotonic()
        with self.span("opt"):
            yield
            length_s = self.plan.stages[self.stage].optimizer_ns * 1e-9
            self._wait(length_s - (time.monotonic() - start_s))

    def duration_factor(self) -> float:
        """Return the factor on the duration of this step's passes."""
        factor = 1.0
        for slow in self.plan.slow:
            if slow.rank == self.rank and slow.from_step <= self._step < slow.to_step:
                factor /= slow.factor
        return factor

    def jitter(self, *what: object) -> float:
        """Return the random factor on one pass; the same for the same pass of the same seed."""
        return self._factor(self.plan.compute_jitter, *what)

    def write(self) -> None:
        """Write everything that was recorded."""
        path = Path(self.plan.room) / f"truth-{self.plan.job}-{self.rank}.json"
        path.write_text(json.dumps({"steps": self._steps, "spans": self._spans}), encoding="utf-8")

    def _overhead(self, step: int) -> None:
        factor = self._factor(self.plan.overhead_jitter, "overhead", step)
        self._wait(self.plan.overhead_ms * 1e-3 * factor)

    def _factor(self, sigma: float, *what: object) -> float:
        key = repr((self.plan.seed, self.plan.job, self.rank, *what))
        return exp(sigma * random.Random(key).gauss(0.0, 1.0))

    def _wait(self, duration_s: float) -> None:
        if duration_s > 0:
            time.sleep(duration_s)

    def _report(self, step: int) -> None:
        now = {"job": self.plan.job, "rank": self.rank, "step": step,
               "time_ns": time.time_ns(), "pid": os.getpid()}  # fmt: skip
        self._reports.sendto(json.dumps(now).encode(), self.plan.reports)


class Passes:
    """Forward and backward passes of one rank, unit by unit of its model."""

    def __init__(self, recorder: RankRecorder) -> None:
        self._recorder = recorder
        self._stage = recorder.plan.stages[recorder.stage]
        self._done = {"fwd": 0, "bwd": 0}
        self._start_ns = {"fwd": 0, "bwd": 0}
        self._factor = {"fwd": 1.0, "bwd": 1.0}
        self._spent_s = 0.0
        self._late_s = 0.0

    @property
    def units(self) -> int:
        return len(self._stage.shares)

    def begin_step(self) -> None:
        self._done = dict.fromkeys(self._done, 0)

    def forward(self, unit: int) -> None:
        """Spend the time of one unit's forward pass; the first and the last one bound a span."""
        self._work("fwd", unit, self._stage.forward_ns, unit == 0, unit == self.units - 1)

    def backward(self, unit: int) -> None:
        self._work("bwd", unit, self._stage.backward_ns, unit == self.units - 1, unit == 0)

    def whole(self, kind: str) -> None:
        """Spend the time of all units of a pass (``fwd`` or ``bwd``)."""
        work = self.forward if kind == "fwd" else self.backward
        for unit in range(self.units) if kind == "fwd" else reversed(range(self.units)):
            work(unit)

    def _work(self, kind: str, unit: int, pass_ns: float, first: bool, last: bool) -> None:
        recorder = self._recorder
        if first:
            self._start_ns[kind] = time.time_ns()
            jitter = recorder.jitter(kind, recorder.step, self._done[kind])
            self._factor[kind] = jitter * recorder.duration_factor()
            self._spent_s, self._late_s = time.thread_time(), 0.0
        self._wait(pass_ns * 1e-9 * self._stage.shares[unit] * self._factor[kind])
        if last:
            start_ns, end_ns = self._start_ns[kind], time.time_ns()
            recorder.add_span(kind, start_ns, end_ns, micro_batch=self._done[kind])
            self._done[kind] += 1

    def _wait(self, length_s: float) -> None:
        """Wait for a length less the processor time since the last wait, and its delay."""
        start_s = time.monotonic()
        rest_s = length_s - (time.thread_time() - self._spent_s) - self._late_s
        if rest_s > 0:
            time.sleep(rest_s)
        self._late_s = time.monotonic() - start_s - rest_s
        self._spent_s = time.thread_time()


@dataclass(frozen=True)
class Sending:
    """A message under way; ``buffer`` is kept until it has gone."""

    wait: Callable[[], Any]
    buffer: Any
    kind: str
    start_ns: int
    about: dict[str, Any]

    def end(self, recorder: RankRecorder) -> None:
        """Wait until the message has gone, and record it."""
        self.wait()
        recorder.add_span(self.kind, self.start_ns, time.time_ns(), **self.about)
