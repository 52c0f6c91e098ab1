"""A family: the ranges that similar worlds are drawn from, in a file of its own.

A family is either for development or for an exam. Anybody may look at the worlds of the first and
tune a method to them; worlds of the second are only for a final grade.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.families.dice import Dice, Maybe, Share, Span, Whole
from prism_sim.families.faults import FaultRanges
from prism_sim.families.hardware import Hardware, Telemetry
from prism_sim.loading.bundled import folder
from prism_sim.loading.closed import read_closed
from prism_sim.scenario.base import Closed
from prism_sim.scenario.job import Model, Strategy
from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.training.schedules import SCHEDULES

# The jobs of a family: models, layouts, schedules, strategies, lengths, and what varies in them.
#
# All divisions of a model over GPUs that the ranges allow are listed, and one of those of about the
# drawn size is taken. So a small and a large job are as likely, whatever the model divides by.


class Habits(Closed):
    """What jobs do around their steps."""

    evaluation: Share = Field(default=0.0, description="Share of jobs that evaluate.")
    saves: Share = Field(default=0.0, description="Share of jobs that save to a storage server.")
    every_steps: Whole = Field(default=(4, 40), description="Steps from one to the next.")
    modes: tuple[Literal["sync", "async"], ...] = ("sync", "async")
    """Ways to save."""

    def draw(self, dice: Dice) -> dict[str, Any]:
        """The keys of a job."""
        drawn: dict[str, Any] = {}
        if dice.happens("evaluation", self.evaluation):
            every = dice.log_whole("steps of evaluations", self.every_steps)
            drawn["evaluation"] = {"every": every, "micro_batches": 4}
        if dice.happens("saves", self.saves):
            every = dice.log_whole("steps of saves", self.every_steps)
            drawn["checkpoint"] = {"every": every, "mode": dice.choice("save mode", self.modes)}
        return drawn


class Noise(Closed):
    """How uneven healthy computing is."""

    mfu: Span = Field(description="Fraction of the peak; 0.35 to 0.55 are published (MegaScale).")
    compute_jitter: Span = Field(description="Sigma of every pass.")
    server_jitter: Span = Field(default=(0.0, 0.0), description="Sigma shared by a server.")
    tail_probability: Maybe | None = Field(default=None, description="Passes with a heavy tail.")
    step_overhead_ms: Span = Field(description="Host work between steps [ms], log-uniform.")
    step_overhead_jitter: Span = Field(default=(0.0, 0.0), description="Sigma of that.")
    length_spread: Maybe | None = None
    """Sigma of the tokens of a micro-batch."""
    warm_up_steps: Maybe | None = Field(default=None, description="First steps that are slower.")

    def draw(self, dice: Dice) -> dict[str, Any]:
        """The keys of a job."""
        drawn = {
            "mfu": dice.uniform("mfu", self.mfu),
            "compute_jitter": dice.uniform("compute jitter", self.compute_jitter),
            "server_jitter": dice.uniform("server jitter", self.server_jitter),
            "tail_probability": dice.maybe("tail", self.tail_probability),
            "step_overhead_ms": dice.log_uniform("step overhead", self.step_overhead_ms),
            "step_overhead_jitter": dice.uniform("overhead jitter", self.step_overhead_jitter),
            "length_spread": dice.maybe("length spread", self.length_spread),
        }
        steps = dice.maybe("warm-up", self.warm_up_steps)
        drawn["warm_up_steps"] = None if steps is None else round(steps)
        return {key: value for key, value in drawn.items() if value is not None}


@dataclass(frozen=True)
class Layout:
    """One division of a model over GPUs."""

    dp: int
    pp: int
    tp: int
    cp: int
    ep: int

    @property
    def ranks(self) -> int:
        """GPUs that it needs."""
        return self.dp * self.pp * self.tp * self.cp


class Work(Closed):
    """Ranges of the jobs of a world."""

    jobs: Whole = Field(default=(1, 1), description="Jobs in the cluster.")
    start_steps: Span = (0.0, 0.0)
    """Start of each job after the first, in steps of the first one."""
    models: tuple[Model, ...] = Field(min_length=1)
    """Names of model presets, or sizes written out."""
    steps: Whole = Field(description="Steps of a job, log-uniform.")
    ranks: Whole = Field(description="GPUs of a job, log-uniform.")
    dp: tuple[int, ...] = Field(min_length=1, description="Data-parallel replicas.")
    pp: tuple[int, ...] = Field(default=(1,), description="Pipeline stages.")
    tp: tuple[int, ...] = Field(default=(1,), description="Tensor-parallel ranks, in one server.")
    cp: tuple[int, ...] = Field(default=(1,), description="Context-parallel ranks.")
    ep: tuple[int, ...] = (1,)
    """Expert-parallel ranks, for models with experts."""
    micro_batches: Whole = Field(description="Micro-batches of a step, log-uniform.")
    schedules: tuple[str, ...] = Field(default=("1f1b",), description="Schedules of pipelines.")
    chunks: tuple[int, ...] = Field(default=(2,), description="Chunks of interleaved schedules.")
    zero_stages: tuple[int, ...] = Field(default=(0, 1), description="Stages of ZeRO.")
    hybrid: Share = Field(default=0.0, description="Share of sharded jobs with hybrid sharding.")
    all_reduces: tuple[str, ...] = Field(default=("ring",), description="All-reduce algorithms.")
    overlapped: Share = Field(default=1.0, description="Share that overlap gradients and passes.")
    small_reduces: Share = 0.0
    """Share that reduce gradient norms and losses in every step."""
    transports: tuple[Literal["roce", "tcp"], ...] = ("roce",)
    """Transport protocols."""
    placements: tuple[Strategy, ...] = Field(default=("packed",), description="Placements.")
    noise: Noise = Field(description="How uneven healthy computing is.")
    habits: Habits = Field(default=Habits(), description="What jobs do around their steps.")

    def draw(self, dice: Dice, gpus_per_server: int) -> list[dict[str, Any]]:
        """The jobs of one world, without their starts.

        Raises
        ------
        UserError : a model cannot be divided as the ranges say.
        """
        number = dice.whole("jobs", self.jobs)
        return [
            {"name": f"job-{index}"} | self._job(dice.below("job", index), gpus_per_server)
            for index in range(number)
        ]

    def _job(self, dice: Dice, gpus_per_server: int) -> dict[str, Any]:
        model = dice.choice("model", self.models)
        schedule = dice.choice("schedule", self.schedules)
        chunked = SCHEDULES[schedule].chunked
        chunks = dice.choice("chunks", self.chunks) if chunked else 1
        layout = self._layout(dice, model, gpus_per_server, chunks)
        job = {"model": model.model_dump(mode="json", exclude_defaults=True)} | vars(layout)
        job |= {"steps": dice.log_whole("steps", self.steps)}
        micro_batches = dice.log_whole("micro-batches", self.micro_batches)
        if layout.pp > 1:
            job |= {"schedule": schedule} | ({"chunks": chunks} if chunked else {})
            micro_batches = -(-micro_batches // layout.pp) * layout.pp
        job["micro_batches"] = micro_batches
        job |= self._strategy(dice, model, layout)
        job |= {
            "transport": dice.choice("transport", self.transports),
            "placement": dice.choice("placement", self.placements),
        }
        return job | self.noise.draw(dice) | self.habits.draw(dice)

    def _layout(self, dice: Dice, model: ModelSizes, gpus_per_server: int, chunks: int) -> Layout:
        """A layout of about the drawn number of ranks."""
        possible = [*self._layouts(model, gpus_per_server, chunks)]
        if not possible:
            what = f"{model.name} cannot be divided over servers of {gpus_per_server} GPUs"
            raise UserError(Problem(what, "work", "widen ranks, dp, pp or tp"))
        wanted = dice.log_whole("ranks", self.ranks)
        nearest = min(abs(layout.ranks - wanted) for layout in possible)
        return dice.choice(
            "layout", [one for one in possible if abs(one.ranks - wanted) == nearest]
        )

    def _layouts(self, model: ModelSizes, gpus_per_server: int, chunks: int) -> Iterator[Layout]:
        """Every division of ``model`` that the ranges allow and that needs several servers."""
        experts = model.moe.experts if model.moe else 1
        for sizes in itertools.product(self.dp, self.pp, self.tp, self.cp, self.ep):
            layout = Layout(*sizes)
            cut = layout.pp * (chunks if layout.pp > 1 else 1)
            parts = (model.layers, cut), (model.heads, layout.tp), (gpus_per_server, layout.tp)
            shares = (experts, layout.ep), (layout.dp, layout.ep)
            divides = not any(whole % part for whole, part in (*parts, *shares))
            fits = self.ranks[0] <= layout.ranks <= self.ranks[1]
            if divides and fits and layout.ranks > gpus_per_server:
                yield layout

    def _strategy(self, dice: Dice, model: ModelSizes, layout: Layout) -> dict[str, Any]:
        """How replicas keep their parameters equal."""
        stages = [stage for stage in self.zero_stages if stage < 3 or model.moe is None] or [1]
        stage = dice.choice("zero stage", stages)
        drawn: dict[str, Any] = {"zero_stage": stage}
        if stage == 0:
            drawn["all_reduce"] = dice.choice("all-reduce", self.all_reduces)
        shards = [size for size in (2, 4, 8) if layout.dp % size == 0 and size < layout.dp]
        plain = layout.cp == layout.ep == 1
        if stage == 3 and shards and plain and dice.happens("hybrid", self.hybrid):
            drawn["hybrid_shards"] = dice.choice("shards", shards)
        drawn["overlap_gradients"] = dice.happens("overlapped", self.overlapped)
        small = dice.happens("small reduces", self.small_reduces)
        return drawn | {"gradient_norm": small, "loss_reduce": small}


class Traffic(Closed):
    """Traffic that belongs to no job."""

    flows_per_step: Maybe | None = None
    """Flows from each server during a step of the first job."""
    median_bytes: Span = Field(default=(500.0, 50_000.0), description="Median size [bytes].")


class Family(Closed):
    """Ranges of similar worlds."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    """Name of the family; every draw depends on it."""
    version: int = Field(default=1, ge=1, description="Higher after every change of the ranges.")
    set: Literal["develop", "exam"]
    """develop: methods may be tuned to its worlds. exam: only for a final grade."""
    purpose: str = Field(min_length=1, description="What the worlds have in common: one sentence.")
    rows: int = Field(default=150_000, ge=1000)
    """Most flow records and spans of a world; a larger one is drawn again."""
    hardware: Hardware = Field(description="Servers and fabric.")
    work: Work = Field(description="The jobs.")
    telemetry: Telemetry = Field(description="How transfers become records.")
    traffic: Traffic = Field(default=Traffic(), description="Traffic that belongs to no job.")
    faults: FaultRanges = Field(description="The faults.")


def read_family(path: Path) -> Family:
    """The family in the file at ``path``.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    return read_closed(path, Family)[0]


def read_families(where: Path) -> dict[str, Family]:
    """Every family in the folder ``where`` by its name, sorted."""
    families = [read_family(path) for path in sorted(where.glob("*.yaml"))]
    return {family.name: family for family in sorted(families, key=lambda one: one.name)}


def bundled_families() -> dict[str, Family]:
    """The families of the package, by name; all are for development."""
    return read_families(folder() / "families")
