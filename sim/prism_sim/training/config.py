"""The configuration of a training job, with the kinds that it can choose from.

Schedules, data-parallel strategies and algorithms of all-reduces are fields. A habit, or an
exchange with options of its own, is active if the job has its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model, model_validator

from prism_sim.registry import named
from prism_sim.scenario.base import Loc, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives import ALL_REDUCES, AllReduceBase
from prism_sim.training.collectives.ring import RingAllReduce
from prism_sim.training.data_parallel import STRATEGIES, StrategyBase
from prism_sim.training.exchanges import EXCHANGES, ExchangeBase
from prism_sim.training.habits import HABITS, HabitBase
from prism_sim.training.schedules import SCHEDULES, OneFOneB, ScheduleBase

ZERO_STAGES: dict[int, type[StrategyBase]] = {
    kind.zero_stage: kind for kind in STRATEGIES.values() if kind.zero_stage is not None
}
"""The strategies that correspond to stages of ZeRO."""


if TYPE_CHECKING:
    Schedule: TypeAlias = ScheduleBase
    Strategy: TypeAlias = StrategyBase
    AllReduce: TypeAlias = AllReduceBase
else:
    Schedule = named(SCHEDULES)
    Strategy = named(STRATEGIES)
    AllReduce = named(ALL_REDUCES)

M = TypeVar("M", bound=BaseModel)


def with_keys(model: type[M]) -> type[M]:
    """``model`` with a key for every habit, and for every exchange that has one."""
    kinds: list[type[HabitBase] | type[ExchangeBase]] = [*HABITS.values(), *EXCHANGES.values()]
    fields: dict[str, Any] = {
        kind.key: (kind | None, Field(default=None, description=kind.about))
        for kind in kinds
        if kind.key
    }
    extended: type[M] = create_model(
        model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **fields
    )
    return extended


@with_keys
class TrainingConfig(JobConfig):
    """One training job with data, pipeline, tensor, expert and context parallelism."""

    schedule: Schedule = OneFOneB()
    """Order of a pipeline stage's work: the name of a schedule, or its kind and options."""
    zero_stage: int | None = Field(
        default=1,
        ge=min(ZERO_STAGES),
        le=max(ZERO_STAGES),
        json_schema_extra={"enum": [*ZERO_STAGES, None]},
    )
    """0: gradients are all-reduced. 1: they are reduce-scattered, and parameters gathered after the
    optimizer (ZeRO-1, Megatron's distributed optimizer). 2: they are reduce-scattered for every
    micro-batch. 3: parameters are sharded too (FSDP), and gathered block by block in every forward
    and backward pass."""
    data_parallel: Strategy | None = None
    """The data-parallel strategy by its name, or its kind and options. Left out: determined by
    zero_stage."""
    all_reduce: AllReduce = RingAllReduce()
    """Algorithm of gradient all-reduces (ZeRO stage 0): its name, or its kind and options.
    Reduce-scatters and all-gathers are rings."""

    @model_validator(mode="before")
    @classmethod
    def _stage_of_the_strategy(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "zero_stage" in values:
            return values
        written = values.get("data_parallel")
        name = written.get("kind") if isinstance(written, Mapping) else written
        kind = STRATEGIES.get(name) if isinstance(name, str) else None
        return values if kind is None else values | {"zero_stage": kind.zero_stage}

    @model_validator(mode="after")
    def _one_strategy(self) -> TrainingConfig:
        if self.data_parallel is None and self.zero_stage is None:
            raise ValueError("neither zero_stage nor data_parallel is given; add one of them")
        if self.data_parallel is not None and self.data_parallel.zero_stage != self.zero_stage:
            what = f"data_parallel {self.data_parallel.kind} is not zero_stage {self.zero_stage}"
            raise ValueError(f"{what}; leave one of them out")
        return self

    @property
    def parts(self) -> int:
        return self.schedule.parts(self.pp, self.chunks)

    @property
    def stage_chunks(self) -> int:
        return self.schedule.stage_chunks(self.chunks)

    @property
    def copies(self) -> int:
        return self.schedule.copies

    def part_of(self, stage: int, chunk: int) -> int:
        return self.schedule.part_of(stage, chunk, self.pp)

    @property
    def strategy(self) -> StrategyBase:
        """The strategy that keeps the parameters of replicas equal."""
        if self.data_parallel is not None:
            return self.data_parallel
        assert self.zero_stage is not None  # the validator above checks it
        kind = ZERO_STAGES[self.zero_stage]
        return kind(kind=kind.model_fields["kind"].default)

    @property
    def optimizer_shards(self) -> int:
        """Ranks that share one copy of the optimizer's state."""
        return self.strategy.optimizer_shards(self)

    @property
    def habits(self) -> list[HabitBase]:
        """The job's activities besides its steps, in order."""
        found = (getattr(self, kind.key) for kind in HABITS.values())
        return [habit for habit in found if habit is not None]

    @property
    def exchanges(self) -> list[ExchangeBase]:
        """The exchanges of parallel ranks inside a pass."""
        found = (kind.of(self) for kind in EXCHANGES.values())
        return [exchange for exchange in found if exchange is not None]

    def kind_remarks(self, at: Loc, has_storage: bool) -> Remarks:
        """Errors of the kinds that the job (at ``at`` in the scenario) chose."""
        yield from self.schedule.remarks(self, at)
        yield from self.strategy.remarks(self, at)
        yield from self.all_reduce.remarks(self, at)
        yield from _all(kind.checks(self, at) for kind in EXCHANGES.values())
        yield from _all(habit.remarks(self, at, has_storage) for habit in self.habits)


def _all(remarks: Iterator[Remarks]) -> Remarks:
    return chain.from_iterable(remarks)
