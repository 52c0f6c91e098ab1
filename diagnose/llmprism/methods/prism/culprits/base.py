"""What a kind of culprit is: what it lost in each step, how likely it is, and what it is called.

Own work by the order of events is wrong where computation overlaps with transfers, the graph where
a parent is. So a unit lost the mean of both, each no more than the step is longer by
(:func:`~llmprism.methods.prism.durations.bounded_loss`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np

from llmprism.methods.prism.durations import Durations, bounded_loss
from llmprism.methods.prism.parameters import QUARTER
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Bools, Floats, Ints

SLOW = ("slow_gpu", "slow_server", "degraded_nvlink")
PAUSED = ("gc_pauses", "loader_stalls", "intermittent_gpu", "slow_server")
"""Causes of slow computation, and of pauses."""


@dataclass(frozen=True)
class Attribution:
    """What a finding says of its culprit.

    Attributes
    ----------
    level, symptom, cause : see the table of findings.
    kind, name : of the culprit.
    evidence : what else is known; ``one_of`` lists suspects that are as likely, ``or_causes``
        causes that look the same.
    sure : probability that the culprit is the right one, if there is one.
    """

    level: str
    symptom: str
    cause: str
    kind: str
    name: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    sure: float = 1.0


@dataclass(frozen=True)
class Lost:
    """What is to be explained in each step of a job, and what its units lost.

    Attributes
    ----------
    durations : of the job.
    longer_ns : by what each step is longer than normal and nothing explains yet; NaN: not judged.
    """

    durations: Durations
    longer_ns: Floats

    @cached_property
    def bound_ns(self) -> Floats:
        """What anybody can have lost in each step [ns], shape (steps,)."""
        bound: Floats = np.maximum(np.nan_to_num(self.longer_ns), 0.0)
        return bound

    @cached_property
    def by_units(self) -> Floats:
        """What each unit lost in each step [ns], shape (units, steps)."""
        durations = self.durations
        in_graph = durations.compute.normal_ns > 0
        return bounded_loss(durations.excess_ns, durations.own_ns, in_graph, self.bound_ns)

    @cached_property
    def common(self) -> Floats:
        """What most units lost at the same time [ns], shape (steps,): nothing tells them apart."""
        if self.seen.size < 2:
            return np.zeros(self.longer_ns.size)
        least: Floats = np.quantile(self.by_units[self.seen], QUARTER, axis=0, method="lower")
        return least

    @cached_property
    def seen(self) -> Ints:
        """Units with events in the network."""
        known = np.isfinite(self.durations.work_ns).any(axis=1)
        return np.flatnonzero(known | (self.durations.compute.normal_ns > 0))

    @property
    def servers(self) -> Ints:
        """Server of each unit, shape (units,)."""
        return self.durations.servers


@dataclass(frozen=True)
class Hypothesis:
    """One culprit that may have made steps longer.

    Attributes
    ----------
    lost_ns : what it lost in each step, no more than the step is longer by, shape (steps,).
    attributed : names it for a window.
    prior : log probability before anything is known, beside others.
    choice : log number of ways to choose who is affected, in each affected step.
    shown : log likelihood ratio of what else each step shows, shape (steps,).
    noise_ns : standard deviation of the losses of a healthy one, where that is known by itself.
    who : unit, server or stage, of those that have numbers.
    server : of a unit, or the server itself; -1 for others.
    parts : servers of a stage.
    """

    kind: str
    lost_ns: Floats
    attributed: Attribute
    prior: float = 0.0
    choice: float = 0.0
    shown: Floats | None = None
    noise_ns: float = inf
    who: int = 0
    server: int = -1
    parts: frozenset[int] = frozenset()

    def covers(self, other: Hypothesis) -> bool:
        """Whether the other one says the same: the server of a unit, or a part of a stage."""
        if self.server >= 0:
            return other.server == self.server
        return other is self or bool(self.parts and other.server in self.parts)


class Rival(NamedTuple):
    """A hypothesis and its share of the posterior in a window."""

    hypothesis: Hypothesis
    share: float


class Scene(NamedTuple):
    """A window of steps that are longer, and all hypotheses about it, the likeliest first.

    Attributes
    ----------
    affected : steps of the window that are longer, shape (steps,).
    """

    durations: Durations
    window: Window
    affected: Bools
    rivals: Sequence[Rival]

    def near(self, kinds: Sequence[str], share: float) -> list[Rival]:
        """Rivals of some kinds with at least ``share`` of the likeliest of them."""
        of_kinds = [rival for rival in self.rivals if rival.hypothesis.kind in kinds]
        most = max((rival.share for rival in of_kinds), default=0.0)
        return [rival for rival in of_kinds if rival.share >= share * most]


Attribute = Callable[[Scene, Hypothesis], Attribution | None]
"""Names a culprit; None if records show no part that it can be."""

HypothesesOf = Callable[[Lost], Iterable[Hypothesis]]
"""Makes all hypotheses of one kind."""


def hidden(scene: Scene, _: Hypothesis) -> Attribution | None:
    """The job: its units wait for each other at the same moment, so records do not show for whom.

    None for a single step: programs save, evaluate and pause.
    """
    if scene.window.first == scene.window.last:
        return None
    causes = {"or_causes": [*dict.fromkeys((*SLOW, *PAUSED))]}
    return Attribution("job", "slow_steps", "unknown", "job", scene.durations.job.name, causes)
