"""The faults of a family: how many, of which kinds, where, how severe, and when.

Each kind of fault draws its own options, as for a campaign (:mod:`prism_sim.faults.campaign`). The
place is one that a job uses, since a fault elsewhere changes nothing. Windows count steps of that
job: from a single step to the whole recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from prism_sim.cluster.placement import Placement
from prism_sim.draws import Draws
from prism_sim.families.dice import Dice, Share, Span, Whole
from prism_sim.faults import KINDS, FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.loading.scenario import Scenario
from prism_sim.loading.size import step_s
from prism_sim.scenario.base import Closed
from prism_sim.scenario.names import leaf_name, spine_name
from prism_sim.scenario.setting import JobOutline
from prism_sim.scenario.words import did_you_mean

ATTEMPTS = 20
"""Draws of one fault, of which some name a kind that is impossible in the world."""


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"there is no kind of fault {kind!r}; {did_you_mean(kind, KINDS)}")
    return kind


Kind = Annotated[str, AfterValidator(_known)]


class FaultRanges(Closed):
    """Ranges of the faults of a world."""

    counts: tuple[float, ...] = Field(
        min_length=1, description="Weight of a world without faults, with one, with two, ..."
    )
    kinds: tuple[Kind, ...] = Field(min_length=1, description="Kinds of faults, each as likely.")
    loss: Span = Field(description="Share of the healthy speed that is lost, log-uniform.")
    window_steps: Whole = Field(
        description="Length of the window in steps, log-uniform; at most to the end of the job."
    )
    whole: Share = Field(default=0.1, description="Share that last from first step to last.")
    from_first: Share = Field(
        default=0.1, description="Share of the others that begin with the first step."
    )
    to_end: Share = Field(default=0.2, description="Share of the rest that last to the end.")
    every_steps: tuple[int, ...] = Field(
        default=(1, 2, 3, 5), description="Rhythm of faults that come and go, in steps."
    )
    noticed_after_s: Span = Field(
        default=(10.0, 30.0),
        description="Time until a stopped job is noticed [s]; 10 to 30 by inspection (ByteRobust).",
    )
    restart: Share = Field(default=0.5, description="Share of stopped jobs that restart.")
    down_s: Span = Field(default=(5.0, 60.0), description="Time until they work again [s].")

    def draw(self, dice: Dice, scenario: Scenario) -> list[dict[str, Any]]:
        """The faults of one world; ``scenario`` has its cluster and its jobs."""
        homes = homes_of(scenario)
        drawn: list[dict[str, Any]] = []
        for number in range(dice.weighted("faults", self.counts)):
            below = dice.below("fault", number)
            attempts = (self._attempt(below.below(n), scenario, homes) for n in range(ATTEMPTS))
            stopped = any(KINDS[fault["kind"]].stops_jobs for fault in drawn)
            found = next((f for f in attempts if f and not (stopped and _stops(f))), None)
            drawn += [found] if found else []
        return drawn

    def _attempt(
        self, dice: Dice, scenario: Scenario, homes: Mapping[str, Gpus]
    ) -> dict[str, Any] | None:
        """One fault; None if its kind is impossible here, or changes nothing."""
        kind = KINDS[dice.choice("kind", self.kinds)]
        job = dice.choice("job", [job for _, job in scenario.modelled])
        first, stop = self._window(dice, job.steps)
        length_s = step_s(scenario.cluster, job)
        drawing = InJob(
            stream=dice.stream("options"),
            setting=scenario,
            position=dice.uniform("position", (0.0, 0.999)),
            from_s=first * length_s,
            to_s=(stop or job.steps) * length_s,
            factor=1 - dice.log_uniform("loss", self.loss),
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
        return fault.model_dump(mode="json", exclude_none=True)

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
        if self.stream.random() < 0.5 or self.setting.cluster.leaves == 1:
            return super().link
        return self.leaf, self._spine

    @property
    def leaf(self) -> str:
        return leaf_name(int(self.setting.cluster.leaf_of(self.server, self.nic)))

    @property
    def switch(self) -> str:
        """The leaf, or a spine if there are several leaves."""
        several = self.setting.cluster.leaves > 1
        return self._spine if several and self.stream.random() < 0.5 else self.leaf

    @property
    def _gpu(self) -> int:
        return int(self.gpus[self.member[1]])

    @property
    def _spine(self) -> str:
        return spine_name(int(self.stream.integers(self.setting.cluster.fabric.spines)))


def _stops(fault: Mapping[str, Any]) -> bool:
    return KINDS[fault["kind"]].stops_jobs


__all__: Sequence[str] = ["FaultRanges", "homes_of"]
