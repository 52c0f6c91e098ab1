"""A study of schedulers of evaluation trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from prism_sim.operations.times import Lognormal, Time
from prism_sim.scenario.base import Closed, Loc


class Scheduler(Closed):
    """How trials are run. Without any option, each data set is a trial that holds a GPU."""

    name: str = Field(min_length=1, description="its name in tables and figures")
    shared_memory: bool = Field(
        default=False, description="a node loads the model once, into memory that trials share"
    )
    metric_on_cpu: bool = Field(
        default=False, description="metrics are computed by jobs of their own, without a GPU"
    )
    packing: bool = Field(
        default=False, description="long data sets first, split into parts, by their prior length"
    )


class Evaluation(Closed):
    """Trials of one model, and schedulers to compare on the same trials."""

    kind: Literal["evaluation"] = "evaluation"
    description: str = Field(default="", description="the question")
    datasets: int = Field(default=63, ge=1, le=10_000, description="data sets")
    nodes: tuple[int, ...] = Field(default=(1, 4), min_length=1, description="nodes, one by one")
    gpus_per_node: int = Field(default=8, ge=1, le=64, description="GPUs of a node")
    cpu_jobs_per_node: int = Field(default=16, ge=1, le=512, description="metric jobs at a time")
    model_gbytes: float = Field(default=14, gt=0, description="size of the model [10^9 bytes]")
    nic_gbps: float = Field(default=25, gt=0, description="link of a node to the storage")
    memory_gbytes_per_s: float = Field(default=20, gt=0, description="from shared memory to a GPU")
    preprocess_s: float = Field(default=29, ge=0, description="mean time of preprocessing [s]")
    inference_s: float = Field(default=114, gt=0, description="mean time of inference [s]")
    metric_s: float = Field(default=42, ge=0, description="mean time of metrics [s]")
    spread: Time = Field(default=Lognormal(sigma=1), description="distribution of inference times")
    prior_error: float = Field(
        default=0.2, ge=0, le=2, description="standard deviation of log(prior / true length)"
    )
    part_s: float = Field(default=120, gt=0, description="longest part of a split data set [s]")
    schedulers: tuple[Scheduler, ...] = Field(min_length=1, description="the first is the baseline")
    seeds: int = Field(default=20, ge=2, le=1000, description="number of replications")

    def unmet(self) -> Iterator[tuple[Loc, str]]:
        """Values that do not fit together: where, and why."""
        for index, nodes in enumerate(self.nodes):
            if nodes < 1:
                yield ("nodes", index), f"nodes is {nodes}, and should be at least 1"
        names = [scheduler.name for scheduler in self.schedulers]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("schedulers", index, "name"), f"two schedulers are called {name!r}"
