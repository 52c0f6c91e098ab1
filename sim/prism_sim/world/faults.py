"""The faults of a running simulation: each begins and ends at its time.

A window in seconds uses the clock. A window in steps waits for a rank to begin a step, so it
may never start. The actual times are kept for the truth, and for warnings after the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from prism_common.errors import Problem
from prism_sim.faults import FaultBase
from prism_sim.faults.target import Target, Undo


@dataclass
class ActiveFault:
    """A fault, and its actual start and end [simulation ns]; None: not (yet)."""

    fault: FaultBase
    start_ns: int | None = None
    end_ns: int | None = None
    undo: Undo | None = None


class FaultSchedule:
    """Begins and ends faults.

    Parameters
    ----------
    faults : those of the scenario, in its order.
    target : the cluster that they change.
    written : how many of them are in the file; a campaign has drawn the others.

    Attributes
    ----------
    all : every fault with its actual times.
    """

    def __init__(
        self, faults: Sequence[FaultBase], target: Target, written: int | None = None
    ) -> None:
        self.target = target
        self._written = len(faults) if written is None else written
        self.all = [ActiveFault(fault) for fault in faults]
        for active in self.all:
            self._schedule(active)

    @property
    def begun(self) -> list[ActiveFault]:
        """The faults that began."""
        return [active for active in self.all if active.start_ns is not None]

    def warnings(self) -> Iterator[Problem]:
        """Faults without effect, after the run: they never began, or affected no traffic."""
        for index, active in enumerate(self.all[: self._written]):
            fault, where = active.fault, f"faults.{index}"
            if active.start_ns is None:
                end_s = self.target.clock.now / 1e9
                what = f"the fault {fault.kind} never began: it waited for {_begin_of(fault)}"
                how = "let it begin earlier, or the run last longer"
                yield Problem(f"{what}, and the run ended at {end_s:.6g} s", where, how)
            elif not fault.jobs_affected(self.target):
                culprit = fault.culprit(self.target).name
                what = f"the fault {fault.kind} slowed no job: none has a connection over {culprit}"
                yield Problem(what, where)

    def _schedule(self, active: ActiveFault) -> None:
        fault, clock = active.fault, self.target.clock
        begin, end = partial(self._begin, active), partial(self._end, active)
        if fault.in_seconds:
            clock.call_at(round((fault.from_s or 0.0) * 1e9), begin)
            if fault.to_s is not None:
                clock.call_at(round(fault.to_s * 1e9), end)
            return
        fault.at_step(self.target, fault.from_step or 0, begin)
        if fault.to_step is not None:
            fault.at_step(self.target, fault.to_step, end)

    def _begin(self, active: ActiveFault) -> None:
        active.undo = active.fault.begin(self.target)
        active.start_ns = now = self.target.clock.now
        lasts_ns = active.fault.lasts_ns
        if lasts_ns is not None:
            self.target.clock.call_at(now + lasts_ns, partial(self._end, active))

    def _end(self, active: ActiveFault) -> None:
        if active.undo is None:
            return
        active.undo()
        active.undo = None
        active.end_ns = self.target.clock.now


def _begin_of(fault: FaultBase) -> str:
    if fault.in_seconds:
        return f"{fault.from_s or 0:g} s"
    return f"step {fault.from_step or 0} of job {fault.job}"
