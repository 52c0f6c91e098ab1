"""The base of all faults: window, severity, and culprit.

A fault changes something during a window. The window is given in steps of a job (for users of a
job) or in seconds of the simulation (for operators of a cluster), never in both. Most faults make
something run at a ``factor`` of its healthy speed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, model_validator

from prism_sim.cluster.topology import Tier, topology_of
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.target import LinkNumbers, Target, Undo
from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean, nearest


@dataclass(frozen=True)
class Culprit:
    """The answer of a perfect diagnosis.

    Attributes
    ----------
    kind : ``address``, ``link``, ``switch``, ``plane``, ``server``, ``stage`` or ``job``.
    name : the address, ``a|b`` for a link, the switch, ``plane 1``, the server, ``job stage 3``, or
        the job.
    job, rank : where the culprit is one rank of one job.
    """

    kind: str
    name: str
    job: str | None = None
    rank: int | None = None


SLOW_COMPUTE = frozenset({"slow_gpu", "slow_rank", "slow_compute"})
"""Causes that flow records cannot distinguish: something computes slowly."""
SLOW_ACCESS = frozenset({"slow_nic", "slow_host_link", "slow_link"})
"""Causes that flow records cannot distinguish: a NIC, or its cable."""


STOPPED = 1e-9
"""Factor on the rate of a link that is down: nothing ends on it."""


class FaultBase(Closed, ABC):
    """The window of a fault; each kind adds its target and its severity.

    A kind names the culprit, makes its change in ``begin``, and lists the jobs that it affects.
    The classes of :mod:`prism_sim.faults.places` do that for a rank, a NIC, a link, a switch, a
    server, a stage or a job; :class:`LinkFault` only names the links that are slow.

    Attributes
    ----------
    causes : right causes of a finding, besides the name of the kind. Flow records cannot
        distinguish all kinds, so several names may be right.
    stops_jobs : whether it may stop a job, which then ends or restarts.
    """

    causes: ClassVar[frozenset[str]] = frozenset()
    stops_jobs: ClassVar[bool] = False

    kind: str
    job: str | None = Field(default=None, description="The job whose steps the window counts.")
    from_step: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """First step affected, from 0. Left out: the job's first."""
    to_step: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """First step no longer affected. Left out: none, to the end."""
    from_s: float | None = Field(default=None, ge=0, le=1e8)
    """Start of the fault [s]. Left out: 0."""
    to_s: float | None = Field(default=None, ge=1e-9, le=1e8)
    """End of the fault [s]. Left out: it lasts."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """The values of a fault that a campaign draws; each class adds its own.

        Raises
        ------
        ValueError : there is no place for such a fault.
        """
        return {"from_s": drawing.from_s, "to_s": drawing.to_s}

    @classmethod
    def is_of_access(cls) -> bool:
        """Whether it concerns a NIC or its cable.

        A fault of a rank that does not is one of its GPU: then the ranks of its tensor-parallel
        group, which work in lock-step, are equally right culprits.
        """
        return bool(cls.causes & SLOW_ACCESS)

    @property
    def in_steps(self) -> bool:
        """Whether the window is given in steps of ``job`` rather than in seconds."""
        return self.from_step is not None or self.to_step is not None

    @property
    def in_seconds(self) -> bool:
        """Whether the window counts in seconds of the simulation; without one, from their start."""
        return not self.in_steps

    @property
    def speed(self) -> float | None:
        """Speed during the fault, as a fraction of the healthy one; None if it has none."""
        return None

    @property
    def lasts_ns(self) -> int | None:
        """Time from its beginning to its end [ns]; None if the window decides."""
        return None

    @abstractmethod
    def magnitude(self, target: Target) -> float:
        """Severity: the share of speed or capacity that is lost, in [0, 1]."""

    @abstractmethod
    def culprit(self, target: Target) -> Culprit:
        """The answer of a perfect diagnosis."""

    @abstractmethod
    def begin(self, target: Target) -> Undo:
        """Make the change now; returns a function that reverts it."""

    @abstractmethod
    def jobs_affected(self, target: Target) -> list[str]:
        """Jobs whose work or traffic is affected."""

    def at_step(self, target: Target, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when the window's job begins ``step``."""
        assert self.job is not None  # the validator below checks it
        target.compute.at_step(self.job, step, call)

    @model_validator(mode="after")
    def _one_window(self) -> FaultBase:
        if self.in_steps and (self.from_s is not None or self.to_s is not None):
            raise ValueError("the window is given twice, in steps and in seconds; keep one")
        if self.in_steps and self.job is None:
            raise ValueError("a window in steps needs a job whose steps they are; add job")
        if _empty(self.from_step, self.to_step) or _empty(self.from_s, self.to_s):
            raise ValueError("the window ends before it begins; let it end after its start")
        return self

    def remarks(self, setting: Setting) -> Remarks:
        """Errors of the fault in this scenario; locations are relative to the fault.

        A kind adds errors of its target.
        """
        names = [job.name for job in setting.jobs]
        end_s = setting.duration_s
        if end_s is not None and (self.from_s or 0) >= end_s:
            what = f"the fault starts at {self.from_s} s, and the simulation ends at {end_s} s"
            yield Remark(("from_s",), what, "start it earlier", (("duration_s",),))
        if self.job in names:
            yield from self._window_remarks(setting, names.index(self.job))
        elif self.job is not None:
            what = f"the fault names the unknown job {self.job!r}"
            yield Remark(("job",), what, did_you_mean(self.job, names), every_name(setting))

    def doubts(self, setting: Setting) -> Remarks:
        """Reasons why the fault changes nothing in this scenario; locations as in ``remarks``.

        A kind adds reasons that concern its target.
        """
        for index, job in enumerate(setting.jobs):
            if job.name == self.job and self.to_s is not None and self.to_s <= job.start_s:
                what = (
                    f"the fault ends at {self.to_s} s, and job {job.name} starts at {job.start_s} s"
                )
                reads = (("jobs", index, "start_s"), ("jobs", index, "name"))
                yield Remark(("to_s",), what, "end it later", reads)

    def _window_remarks(self, setting: Setting, index: int) -> Remarks:
        job = setting.jobs[index]
        reads = (("jobs", index, "steps"), ("jobs", index, "name"))
        how = f"steps of {job.name} run from 0 to {job.steps - 1}"
        if (self.from_step or 0) >= job.steps:
            what = f"from_step {self.from_step} lies after the last step of job {job.name}"
            yield Remark(("from_step",), what, how, reads)
        if (self.to_step or 0) > job.steps:
            what = f"to_step {self.to_step} lies outside the {job.steps} steps of job {job.name}"
            yield Remark(("to_step",), what, f"{how}; to_step is the first one not affected", reads)

    def rank_remarks(self, setting: Setting, rank: int | None) -> Remarks:
        """Errors of naming ``rank`` of the fault's job."""
        for index, job in enumerate(setting.jobs):
            if rank is not None and job.name == self.job and rank >= job.ranks:
                what = f"rank {rank} is not one of the {job.ranks} ranks of job {job.name}"
                size = tuple(("jobs", index, key) for key in ("name", "dp", "pp", "tp"))
                yield Remark(("rank",), what, f"ranks count from 0 to {job.ranks - 1}", size)


def every_name(setting: Setting) -> tuple[tuple[str | int, ...], ...]:
    """The locations of all job names in the scenario."""
    return tuple(("jobs", index, "name") for index in range(len(setting.jobs)))


CANDIDATES = 1024
"""Names per tier that are searched for a similar name."""


def what_exists(name: str, tiers: Sequence[Tier]) -> str:
    """A hint for an unknown ``name``: the most similar name, and the names in each of ``tiers``."""
    known = [tier.name_of(i) for tier in tiers for i in range(min(len(tier), CANDIDATES))]
    near = nearest(name, known)
    extents = ", ".join(tier.extent for tier in tiers if len(tier))
    return f"{f'did you mean {near}? ' if near else ''}there are {extents}"


def never_crossed(key: str, switch: str, setting: Setting) -> Remarks:
    """A remark at ``key`` if no path between two NICs passes through ``switch``."""
    topology = topology_of(setting.cluster)
    if topology.node(switch) is not None and not topology.crossed(switch):
        what = f"nothing is ever sent through {switch}: all NICs are on one leaf"
        yield Remark((key,), what, f"name {topology.leaves.name_of(0)} or a NIC", SHAPE)


class SlowFault(FaultBase):
    """A fault that makes something run at ``factor`` of its healthy speed."""

    factor: float = Field(ge=1e-9, le=1)
    """Speed during the fault, as a fraction of the healthy one."""

    @property
    def speed(self) -> float | None:
        return self.factor

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"factor": drawing.factor}

    def magnitude(self, target: Target) -> float:
        return 1 - self.factor

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if self.factor == 1:
            yield Remark(("factor",), "a fault of factor 1 changes nothing")


class LinkFault(SlowFault):
    """A fault that makes links slow."""

    @abstractmethod
    def links(self, target: Target) -> LinkNumbers:
        """Directed links that run at ``factor`` of their rate during the fault."""

    def begin(self, target: Target) -> Undo:
        return target.links.slow(self.links(target), self.factor)

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_across(self.links(target))


def _empty(start: float | None, end: float | None) -> bool:
    return end is not None and end <= (start or 0)
