"""Faults during a run: rates of cables change, and processes pause, when steps begin.

A slow rank is the trainers' own matter; here only its window is noted. All windows are those of
the truth: a window of cables from when their rate changed, one of a rank from its own steps.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lab.case import LabCase, Pause
from lab.network import Network
from lab.plan import JobPlan
from prism_sim.faults import FaultBase
from prism_sim.faults.computing import SlowGpu
from prism_sim.faults.links import SlowLink, SlowNic
from prism_sim.faults.switches import SlowSwitch

Ends = tuple[str, str]


@dataclass(frozen=True)
class Report:
    """A rank begins a step (after its last step: the one that would follow)."""

    job: str
    rank: int
    step: int
    time_ns: int
    pid: int


class FaultWindows:
    """Makes and ends the faults of a case as its ranks report their steps.

    Attributes
    ----------
    begun : for each fault or pause, by its number: when it began and ended [ns].
    """

    def __init__(self, case: LabCase, network: Network, plans: list[JobPlan]) -> None:
        self._case, self._network = case, network
        self._plans = {plan.job: plan for plan in plans}
        self.begun: dict[int, list[int]] = {}

    @property
    def all(self) -> list[FaultBase | Pause]:
        return [*self._case.scenario.faults, *self._case.lab.pauses]

    def take(self, report: Report) -> None:
        """Begin and end what the start of this step begins and ends."""
        for number, fault in enumerate(self.all):
            if fault.job != report.job:
                continue
            if isinstance(fault, Pause):
                self._pause(number, fault, report)
            elif not isinstance(fault, SlowGpu) or fault.rank == report.rank:
                self._window(number, fault, report)

    def _window(self, number: int, fault: FaultBase, report: Report) -> None:
        last = fault.to_step or self._plans[report.job].steps
        if report.step >= (fault.from_step or 0) and number not in self.begun:
            self._scale(fault, fault.speed or 1.0)
            self.begun[number] = [_moment(fault, report)]
        if report.step >= last and len(self.begun.get(number, ())) == 1:
            self._scale(fault, 1.0)
            self.begun[number].append(_moment(fault, report))

    def _pause(self, number: int, pause: Pause, report: Report) -> None:
        if (report.rank, report.step) != (pause.rank, pause.step) or number in self.begun:
            return
        os.kill(report.pid, signal.SIGSTOP)
        self.begun[number] = [time.time_ns()]

        def go_on() -> None:
            with suppress(ProcessLookupError):
                os.kill(report.pid, signal.SIGCONT)
            self.begun[number].append(time.time_ns())

        threading.Timer(pause.pause_ms / 1000, go_on).start()

    def _scale(self, fault: FaultBase, factor: float) -> None:
        for ends in self._cables(fault):
            self._network.scale(ends, factor)

    def _cables(self, fault: FaultBase) -> list[Ends]:
        known = list(self._network.cables)
        if isinstance(fault, SlowSwitch):
            return [ends for ends in known if fault.switch in ends]
        if isinstance(fault, SlowLink):
            return [ends for ends in known if set(ends) == {fault.a, fault.b}]
        if isinstance(fault, SlowNic):
            return [ends for ends in known if ends[0] == self.address(fault)]
        return []

    def address(self, fault: SlowNic | SlowGpu | Pause) -> str:
        """Return the address of the rank, or of the server, that a fault names."""
        if fault.job is not None and fault.rank is not None:
            return self._plans[fault.job].addresses[fault.rank]
        by_server = {server: own for own, server in self._network.server_of.items()}
        return by_server[getattr(fault, "server", None) or ""]

    def culprit(self, fault: FaultBase | Pause) -> tuple[str, str]:
        """Return what a perfect diagnosis names: its kind and name."""
        if isinstance(fault, SlowSwitch):
            return "switch", fault.switch
        if isinstance(fault, SlowLink):
            return "link", f"{fault.a}|{fault.b}"
        assert isinstance(fault, SlowNic | SlowGpu | Pause)
        return "address", self.address(fault)


def row(windows: FaultWindows, number: int, fault: FaultBase | Pause) -> dict[str, Any]:
    """Return a fault's row of the truth."""
    start_ns, *end = windows.begun[number]
    kind, name = windows.culprit(fault)
    pause = isinstance(fault, Pause)
    speed = None if pause else getattr(fault, "factor", None)
    return {
        "fault": number, "kind": getattr(fault, "kind", "pause"),
        "culprit_kind": kind, "culprit": name, "job": fault.job,
        "rank": getattr(fault, "rank", None), "switch": name if kind == "switch" else None,
        "jobs": f'["{fault.job}"]', "factor": speed,
        "magnitude": None if speed is None else 1 - speed,
        "from_step": fault.step if isinstance(fault, Pause) else fault.from_step,
        "to_step": fault.step + 1 if isinstance(fault, Pause) else fault.to_step,
        "start_ns": start_ns, "end_ns": end[0] if end else start_ns,
    }  # fmt: skip


def _moment(fault: FaultBase, report: Report) -> int:
    return report.time_ns if isinstance(fault, SlowGpu) else time.time_ns()
