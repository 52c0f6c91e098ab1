"""Draw the jobs of a platform: their sizes, models, layouts, step times and servers.

The ranges are in a YAML file (``scenarios/paper/e1.yaml``). Every value is drawn with a key of its
own (:mod:`prism_sim.draws`), one job after the other. The size comes first, and must leave enough
servers for the jobs that follow. Then come a model that is trained at this size, a layout that
fits, a step time, which gives the number of micro-batches, and free servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.toolkit import (
    Closed,
    Cluster,
    Draws,
    Job,
    OnServers,
    Scenario,
    preset,
    read_closed,
    scenarios_folder,
    server_name,
    stage_costs,
)

RANGES = Path("paper") / "e1.yaml"
ENDLESS = 1000
"""Number of steps of a job that runs longer than the window."""

T = TypeVar("T")
Free = NDArray[np.bool_]
Ints = NDArray[np.int64]

Count = Annotated[int, Field(ge=1)]
Range = tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]]
Sizes = Annotated[tuple[Count, ...], Field(min_length=1)]
Placement = Literal["neighbours", "scattered"]


class Split(Closed):
    """Parallel layout of a model; the other GPUs hold replicas."""

    tp: Count = Field(default=1, description="Tensor-parallel ranks.")
    pp: Count = Field(default=1, description="Pipeline stages.")
    zero: Literal[0, 1, 2, 3] = Field(default=1, description="ZeRO stage.")


class Trained(Closed):
    """A model with its sizes and layouts."""

    model: str = Field(description="A preset.")
    servers: tuple[Count, Count] = Field(description="Fewest and most servers of a job.")
    layouts: tuple[Split, ...] = Field(min_length=1, description="Possible layouts.")


class Ranges(Closed):
    """Ranges from which the jobs are drawn."""

    jobs: Count = Field(description="Number of jobs.")
    servers: Sizes = Field(description="Sizes of a job [servers].")
    placements: tuple[Placement, ...] = Field(min_length=1, description="Ways to choose servers.")
    step_s: Range = Field(description="Shortest and longest computing time of a step [s].")
    mfu: Range = Field(description="Lowest and highest fraction of the GPU's peak.")
    compute_jitter: float = Field(ge=0, description="As in a scenario.")
    step_overhead_ms: float = Field(ge=0, description="As in a scenario [ms].")
    models: tuple[Trained, ...] = Field(min_length=1, description="Models that are trained.")


class Platform(Closed):
    """Content of the file: a cluster, the window, and the ranges of its jobs."""

    description: str = Field(description="Purpose of the file.")
    base: dict[str, Any] = Field(description="The scenario without its jobs.")
    draw: Ranges = Field(description="Ranges from which the jobs are drawn.")
    small: dict[str, Any] = Field(description="Values by dotted path, which add small jobs.")
    reduced: dict[str, Any] = Field(description="Values by dotted path, for the reduced form.")


def read_platform(small: bool = False, reduced: bool = False) -> Platform:
    """Read the bundled ranges; a UserError reports every problem at its line."""
    platform, source = read_closed(scenarios_folder() / RANGES, Platform)
    source.override_all((platform.reduced if reduced else {}) | (platform.small if small else {}))
    return Platform.model_validate(source.values)


def draw_scenario(platform: Platform, seed: int) -> Scenario:
    """The scenario of the platform with the jobs of ``seed``.

    Raises
    ------
    UserError : the cluster has too few servers, even for jobs of the smallest size.
    """
    draws = Draws(seed)
    base = Scenario.model_validate({**platform.base, "seed": seed, "jobs": ()})
    sizes = _sizes(platform.draw, base.cluster, draws)
    free = np.ones(base.cluster.servers, bool)
    jobs = [_job(platform.draw, base.cluster, draws, *of, free) for of in enumerate(sizes)]
    return base.model_copy(update={"name": "recognition", "jobs": tuple(jobs)})


def _sizes(ranges: Ranges, cluster: Cluster, draws: Draws) -> list[int]:
    """Number of servers of each job; each later job can have at least the smallest size."""
    least, left = min(ranges.servers), cluster.servers
    if ranges.jobs * least > left:
        message = f"{ranges.jobs} jobs of {least} servers or more do not fit on {left}"
        raise UserError(Problem(message, str(RANGES), "draw fewer jobs, or give the base servers"))
    sizes = []
    for job in range(ranges.jobs):
        most = left - least * (ranges.jobs - job - 1)
        sizes.append(_one_of([n for n in ranges.servers if n <= most], draws, "servers", job))
        left -= sizes[-1]
    return sizes


def _job(
    ranges: Ranges, cluster: Cluster, draws: Draws, number: int, servers: int, free: Free
) -> Job:
    """Draw job ``number`` and take its servers from ``free``."""
    gpus = servers * cluster.gpus_per_server
    choices = [
        (trained, split)
        for trained in ranges.models
        if trained.servers[0] <= servers <= trained.servers[1]
        for split in trained.layouts
        if gpus % (split.tp * split.pp) == 0 and gpus > split.tp * split.pp
    ]
    model = _one_of(
        list(dict.fromkeys(choice[0].model for choice in choices)), draws, "model", number
    )
    split = _one_of(
        [s for trained, s in choices if trained.model == model], draws, "layout", number
    )
    low, high = map(math.log, ranges.step_s)
    step_s = math.exp(_between(low, high, draws, "step", number))
    strategy = _one_of(ranges.placements, draws, "placement", number)
    own_servers = PLACEMENTS[strategy](free, servers, draws.stream("paper", "where", number))
    free[own_servers] = False
    job = Job(
        name=f"job-{number:02d}",
        model=preset(model),
        dp=gpus // (split.tp * split.pp),
        pp=split.pp,
        tp=split.tp,
        zero_stage=split.zero,
        micro_batches=1,
        mfu=round(_between(*ranges.mfu, draws, "mfu", number), 3),
        recompute="selective",
        placement=OnServers(servers=tuple(server_name(int(place)) for place in own_servers)),
        steps=1,
        start_s=round(_between(0.0, step_s, draws, "start", number), 3),
        compute_jitter=ranges.compute_jitter,
        step_overhead_ms=ranges.step_overhead_ms,
    )
    return _with_step_time(job, cluster, step_s)


def _with_step_time(job: Job, cluster: Cluster, step_s: float) -> Job:
    """``job`` with micro-batches for a step of ``step_s``, and more steps than fit the window.

    A pipeline of p stages takes (m + p - 1) times its slowest stage for m micro-batches. There
    are at least p micro-batches.
    """
    slowest_ns = max(cost.forward_ns + cost.backward_ns for cost in stage_costs(job, cluster))
    micro_batches = max(job.pp, round(step_s * 1e9 / slowest_ns) - (job.pp - 1))
    return job.model_copy(update={"micro_batches": micro_batches, "steps": ENDLESS})


def _neighbours(free: Free, servers: int, generator: np.random.Generator) -> Ints:
    """Neighbouring free servers; if there are too few side by side, any free servers."""
    runs = np.lib.stride_tricks.sliding_window_view(free, servers).all(axis=1)
    if not runs.any():
        return _scattered(free, servers, generator)
    first = int(generator.choice(np.flatnonzero(runs)))
    return np.arange(first, first + servers)


def _scattered(free: Free, servers: int, generator: np.random.Generator) -> Ints:
    return np.sort(generator.permutation(np.flatnonzero(free))[:servers])


PLACEMENTS: dict[str, Callable[[Free, int, np.random.Generator], Ints]] = {
    "neighbours": _neighbours,
    "scattered": _scattered,
}
"""Ways to choose among free servers, by name."""


def _one_of(values: Sequence[T], draws: Draws, purpose: str, job: int) -> T:
    return values[int(draws.stream("paper", purpose, job).integers(len(values)))]


def _between(low: float, high: float, draws: Draws, purpose: str, job: int) -> float:
    return float(draws.stream("paper", purpose, job).uniform(low, high))
