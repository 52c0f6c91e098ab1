"""What the search for causes starts from: the jobs with their steps, and the records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import nanmedian

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class JobView:
    """One job: its name, its traffic by step, its pipelines and the steps of its ranks.

    ``groups`` has the number of the data-parallel group of each endpoint, -1 where it has none.
    """

    name: str
    phases: Phases
    pipelines: Pipelines
    ranks: Ranks
    groups: Ints

    @property
    def count(self) -> int:
        """Number of steps."""
        return self.phases.count

    @cached_property
    def duration_ns(self) -> Floats:
        """Time that each step adds to the job [ns], shape (steps,).

        The time between the last end of a step and that of the step before: a job is as slow as
        its last rank. The first step of an attempt has its own length.
        """
        if not self.ranks.end.size:
            return np.full(self.count, np.nan)
        none = np.isnan(self.ranks.end).all(axis=0)
        latest = np.where(
            none, np.nan, np.nanmax(np.nan_to_num(self.ranks.end, nan=-np.inf), axis=0)
        )
        length = np.diff(latest, prepend=np.nan)
        firsts = self.phases.first_of_epoch
        own = nanmedian(self.ranks.end - self.ranks.start, axis=0)
        length[firsts] = own[firsts]
        return length

    @cached_property
    def between_ends_ns(self) -> Floats:
        """The same where it is measured alike: NaN for the first step of an attempt."""
        length = self.duration_ns.copy()
        length[self.phases.first_of_epoch] = np.nan
        return length

    @cached_property
    def tick_ns(self) -> float:
        """What the lengths of steps are multiples of, where the clock is coarse; else 0 [ns].

        Ends may be estimated, and those of two ranks apart by any time. Lengths are multiples.
        """
        length = np.diff(self.ranks.end, axis=1)
        length = length[np.isfinite(length)]
        tick_ns = clock_tick_ns(np.rint(length).astype(np.int64))
        return float(tick_ns) if tick_ns > 1 else 0.0

    @cached_property
    def period_ns(self) -> float:
        """Median length of a step [ns]."""
        known = self.duration_ns[np.isfinite(self.duration_ns)]
        return float(np.median(known)) if known.size else 0.0

    @cached_property
    def start_ns(self) -> Ints:
        """Begin of each step, median over ranks [ns]."""
        return self._absolute(self.ranks.start)

    @cached_property
    def end_ns(self) -> Ints:
        """End of each step, median over ranks [ns]."""
        return self._absolute(self.ranks.end)

    def _absolute(self, times: Floats) -> Ints:
        """Median over ranks; steps of which nothing is known are even between those around them."""
        middle = nanmedian(times, axis=0)
        known = np.flatnonzero(np.isfinite(middle))
        if not known.size:
            return np.full(middle.size, self.ranks.origin_ns, np.int64)
        middle = np.interp(np.arange(middle.size), known, middle[known])
        return np.rint(middle).astype(np.int64) + self.ranks.origin_ns


@dataclass(frozen=True)
class Context:
    """All jobs, and the records they were found in.

    Attributes
    ----------
    measured : figures of jobs that several causes need (:func:`measured_once`).
    """

    flows: FlowTable
    topology: Topology
    connections: Connections
    jobs: Sequence[JobView]
    measured: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def answers(self) -> dict[int, int]:
        """The connection between the same ports the other way, for every one that has it."""
        connections, flows = self.connections, self.flows
        if not {"src_port", "dst_port"} <= set(flows.optional):
            return {}
        rows = connections.by.order[connections.by.offsets[:-1]]
        ports = [flows.optional[name][rows].tolist() for name in ("src_port", "dst_port")]
        src, dst = connections.src.tolist(), connections.dst.tolist()
        number = {key: i for i, key in enumerate(zip(src, dst, *ports, strict=True))}
        back = zip(dst, src, *reversed(ports), strict=True)
        return {i: number[key] for i, key in enumerate(back) if key in number}


def measured_once(
    measure: Callable[Concatenate[Context, JobView, P], T],
) -> Callable[Concatenate[Context, JobView, P], T]:
    """Keep what ``measure`` returns for each job and arguments; nobody may change it."""

    @wraps(measure)
    def kept(context: Context, job: JobView, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (measure, job.name, args, tuple(sorted(kwargs.items())))
        if key not in context.measured:
            context.measured[key] = measure(context, job, *args, **kwargs)
        found: T = context.measured[key]
        return found

    return kept
