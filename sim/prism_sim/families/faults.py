"""The faults of a family: how many, of which kinds, where, how severe, and when.

Each kind of fault draws its own options, as for a campaign (:mod:`prism_sim.faults.campaign`). The
place is one that a job uses, since a fault elsewhere changes nothing. Windows count steps of that
job: from a single step to the whole recording.

Most drawn faults change next to nothing: another part is slower anyway. With ``due``, a share of
them is drawn again, more severe and then elsewhere, until it costs its job enough. What it costs is
measured: the world is simulated with and without it, on the same random numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from prism_sim.cluster.placement import Placement
from prism_sim.draws import Draws
from prism_sim.families.dice import Dice, Share, Span, Whole, rounded
from prism_sim.faults import KINDS, FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.loading.scenario import Scenario
from prism_sim.loading.size import step_s
from prism_sim.scenario.base import Closed
from prism_sim.scenario.names import leaf_name, spine_name
from prism_sim.scenario.setting import JobOutline
from prism_sim.scenario.words import did_you_mean
from prism_sim.world.slowdowns import rerun, slowdown_by
from prism_sim.world.world import World

ATTEMPTS = 20
"""Draws of one fault, of which some name a kind that is impossible in the world."""
SEVERITIES = 3
"""Severities of one place and kind, if the fault has to cost its job enough."""
HOPEFUL = 0.1
"""Part of the wanted cost, below which more severity would not help: the place does not matter."""


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"there is no kind of fault {kind!r}; {did_you_mean(kind, KINDS)}")
    return kind


Kind = Annotated[str, AfterValidator(_known)]


class Due(Closed):
    """What faults have to cost."""

    share: Share = Field(description="Share of the faults that have to cost it; others are mild.")
    cost: float = Field(gt=0, le=1)
    """Share by which they lengthen the steps of their job at least."""
    tries: int = Field(default=7, ge=1, le=50)
    """Draws of one fault; the last one stays as it is."""


class FaultRanges(Closed):
    """Ranges of the faults of a world."""

    counts: tuple[float, ...] = Field(min_length=1)
    """Weight of a world without faults, with one, with two, ..."""
    kinds: tuple[Kind, ...] = Field(min_length=1, description="Kinds of faults, each as likely.")
    loss: Span = Field(description="Share of the healthy speed that is lost, log-uniform.")
    window_steps: Whole
    """Length of the window in steps, log-uniform; at most to the end of the job."""
    due: Due | None = None
    """Draw faults again until they cost their job enough."""
    whole: Share = Field(default=0.1, description="Share that last from first step to last.")
    from_first: Share = 0.1
    """Share of the others that begin with the first step."""
    to_end: Share = Field(default=0.2, description="Share of the rest that last to the end.")
    every_steps: tuple[int, ...] = (1, 2, 3, 5)
    """Rhythm of faults that come and go, in steps."""
    noticed_after_s: Span = (10.0, 30.0)
    """Time until a stopped job is noticed [s]; 10 to 30 by inspection (ByteRobust)."""
    restart: Share = Field(default=0.5, description="Share of stopped jobs that restart.")
    down_s: Span = Field(default=(5.0, 60.0), description="Time until they work again [s].")

    def draw(self, dice: Dice, scenario: Scenario) -> list[dict[str, Any]]:
        """The faults of one world; ``scenario`` has its cluster and its jobs."""
        homes = homes_of(scenario)
        drawn: list[FaultBase] = []
        before: World | None = None
        for number in range(dice.weighted("faults", self.counts)):
            below = dice.below("fault", number)
            if self.due is None or not below.happens("due", self.due.share):
                found = self._possible(below, scenario, homes, drawn)
            else:
                present = _with(scenario, drawn)
                before = before or rerun(present)
                found, before = self._costly(self.due, below, present, homes, before)
            drawn += [found] if found else []
        return [fault.model_dump(mode="json", exclude_none=True) for fault in drawn]

    def _possible(
        self, dice: Dice, scenario: Scenario, homes: Mapping[str, Gpus], drawn: Sequence[FaultBase]
    ) -> FaultBase | None:
        """The first drawn fault that is possible beside those before it."""
        attempts = (self._attempt(dice.below(n), 0, scenario, homes) for n in range(ATTEMPTS))
        return next((fault for fault in attempts if fault and not _stop_twice(drawn, fault)), None)

    def _costly(
        self, due: Due, dice: Dice, scenario: Scenario, homes: Mapping[str, Gpus], before: World
    ) -> tuple[FaultBase | None, World]:
        """The first fault that costs enough, else the last one tried, and the world with it.

        What changes nothing at one place is drawn elsewhere; what costs too little, more severe.
        """
        found, after, tries, hopeful = None, before, 0, True
        for number, severity in itertools.product(range(ATTEMPTS), range(SEVERITIES)):
            if severity and not hopeful:
                continue
            fault = self._attempt(dice.below(number), severity, scenario, homes)
            hopeful = fault is not None and not _stop_twice(scenario.faults, fault)
            if fault is None or not hopeful:
                continue
            found, tries = fault, tries + 1
            after = rerun(_with(scenario, [*scenario.faults, fault]))
            cost = _cost(after, before)
            if cost >= due.cost or fault.stops_jobs or tries == due.tries:
                break
            hopeful = cost >= due.cost * HOPEFUL
        return found, after

    def _attempt(
        self, dice: Dice, severity: int, scenario: Scenario, homes: Mapping[str, Gpus]
    ) -> FaultBase | None:
        """One fault; None if its kind is impossible here, or changes nothing."""
        kind = KINDS[dice.choice("kind", self.kinds)]
        job = dice.choice("job", [job for _, job in scenario.modelled])
        first, stop = self._window(dice, job.steps)
        length_s = step_s(scenario.cluster, job)
        again = dice.below("severity", severity) if severity else dice
        drawing = InJob(
            stream=again.stream("options"),
            setting=scenario,
            position=dice.uniform("position", (0.0, 0.999)),
            from_s=first * length_s,
            to_s=(stop or job.steps) * length_s,
            factor=1 - again.log_uniform("loss", self._losses(severity)),
            step_s=length_s,
            every_steps=dice.choice("rhythm", self.every_steps),
            outline=job,
            gpus=homes[job.name],
        )
        try:
            values = kind.drawn(drawing) | {"kind": kind.model_fields["kind"].default}
            fault = kind.model_validate(self._in_steps(dice, kind, values, job, first, stop))
        except ValueError:  # pydantic's is one too
            return None
        if any(True for _ in (*fault.remarks(scenario), *fault.doubts(scenario))):
            return None
        return fault

    def _losses(self, severity: int) -> tuple[float, float]:
        """The range of the loss: its upper part, for a draw after some that cost too little."""
        low, high = self.loss
        return rounded(low * (high / low) ** (severity / SEVERITIES)), high

    def _window(self, dice: Dice, steps: int) -> tuple[int, int | None]:
        """First step, and the first one no longer affected; None for no end."""
        if dice.happens("whole", self.whole):
            return 0, None
        longest = min(self.window_steps[1], steps)
        length = dice.log_whole("length", (min(self.window_steps[0], longest), longest))
        if dice.happens("from first", self.from_first):
            return 0, length
        if dice.happens("to end", self.to_end):
            return steps - length, None
        first = dice.whole("first", (0, steps - length))
        return first, first + length

    def _in_steps(
        self,
        dice: Dice,
        kind: type[FaultBase],
        values: dict[str, Any],
        job: JobOutline,
        first: int,
        stop: int | None,
    ) -> dict[str, Any]:
        """``values`` of a fault with a window in steps of ``job``."""
        values = values | {"job": job.name, "from_s": None, "to_s": None, "from_step": first}
        if not kind.stops_jobs:
            return values | {"to_step": stop}
        down_s = dice.log_uniform("down", self.down_s)
        return values | {
            "noticed_after_s": dice.uniform("noticed", self.noticed_after_s),
            "down_s": down_s if dice.happens("restart", self.restart) else None,
        }


Gpus = NDArray[np.int64]
"""GPU of every rank of a job, by its number in the cluster."""


def homes_of(scenario: Scenario) -> dict[str, Gpus]:
    """Where the jobs of ``scenario`` are placed."""
    placement = Placement(scenario.cluster, Draws(scenario.seed), scenario.storage)
    return {job.name: placement.place(job).reshape(-1) for job in scenario.jobs}


@dataclass(frozen=True, kw_only=True)
class InJob(Drawing):
    """A fault at a place that a job uses.

    Attributes
    ----------
    outline : the job.
    gpus : GPU of each of its ranks.
    """

    outline: JobOutline
    gpus: Gpus

    @property
    def member(self) -> tuple[JobOutline, int]:
        return self.outline, int(self.position * len(self.gpus))

    @property
    def server(self) -> int:
        return int(self._gpu // self.setting.cluster.gpus_per_server)

    @property
    def nic(self) -> int:
        cluster = self.setting.cluster
        return int(self._gpu % cluster.gpus_per_server // cluster.gpus_per_nic)

    @property
    def link(self) -> tuple[str, str]:
        """The cable of a NIC, or an uplink of its leaf."""
        if self.stream.random() < 0.5 or not self._uplinked:
            return super().link
        return self.leaf, self._spine

    @property
    def leaf(self) -> str:
        cluster = self.setting.cluster
        port = int(self.stream.integers(cluster.nic_ports)) if cluster.nic_ports > 1 else 0
        return leaf_name(int(cluster.leaf_of(self.server, self.nic, port)))

    @property
    def switch(self) -> str:
        """The leaf, or a spine if there are several leaves."""
        return self._spine if self._uplinked and self.stream.random() < 0.5 else self.leaf

    @property
    def _uplinked(self) -> bool:
        """Whether traffic may pass a spine."""
        cluster = self.setting.cluster
        return cluster.leaves > 1 and cluster.spines > 0

    @property
    def _gpu(self) -> int:
        return int(self.gpus[self.member[1]])

    @property
    def _spine(self) -> str:
        return spine_name(int(self.stream.integers(self.setting.cluster.fabric.spines)))


def _cost(after: World, before: World) -> float:
    """Share by which the last fault of a world lengthens steps, if its job ends later by it."""
    slowdown = slowdown_by(after, before, len(after.faults.all) - 1)
    return slowdown.share or 0.0 if (slowdown.extra_ns or 0) > 0 else 0.0


def _stop_twice(drawn: Sequence[FaultBase], fault: FaultBase) -> bool:
    """Whether jobs would be stopped by two faults."""
    return fault.stops_jobs and any(other.stops_jobs for other in drawn)


def _with(scenario: Scenario, faults: Sequence[FaultBase]) -> Scenario:
    """``scenario`` with these faults, without further measurements."""
    return scenario.model_copy(update={"faults": tuple(faults), "measure_faults": False})


__all__: Sequence[str] = ["FaultRanges", "homes_of"]
