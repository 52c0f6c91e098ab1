"""What explains, from outside the graph of a job, why it is slow or stands still."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llmprism.methods.prism.context import JobView
from llmprism.numerics.arrays import Bools, Ints


@dataclass(frozen=True)
class Cost:
    """Time lost in some steps.

    Attributes
    ----------
    normal_ns, slow_ns : a usual step, and the mean of the slow ones.
    lost_ns : in all of them together.
    deviations : by which slow steps differ from usual ones.
    """

    normal_ns: float
    slow_ns: float
    lost_ns: float
    deviations: float

    @property
    def share(self) -> float:
        """By how much steps are longer, as a fraction of a usual step."""
        return self.slow_ns / self.normal_ns - 1 if self.normal_ns > 0 else 0.0


@dataclass(frozen=True)
class Explanation:
    """Something outside the graph of a job that holds it up in some steps.

    Attributes
    ----------
    level : what was compared: rank, network or group.
    symptom, cause : what was seen, and what explains it.
    culprit_kind, culprit : address, server, link, switch or job, and its name.
    first, last : steps.
    magnitude : share of speed that is lost, in [0, 1].
    confidence : in [0, 1].
    evidence : the numbers behind it.
    cost : None where it only tells why transfers are slow.
    extent_ns : begin and end where they are known better than by steps [ns].
    unaffected : steps from the first to the last in which it does not act.
    """

    job: JobView
    level: str
    symptom: str
    cause: str
    culprit_kind: str
    culprit: str
    first: int
    last: int
    magnitude: float
    confidence: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost | None = None
    extent_ns: tuple[int, int] | None = None
    unaffected: Ints | tuple[()] = ()

    def acts_at(self, moment_ns: Ints) -> Bools:
        """Whether it holds up its job at each moment."""
        step = np.searchsorted(self.job.end_ns, moment_ns)
        acts: Bools = (step >= self.first) & (step <= self.last)
        return acts & ~np.isin(step, self.unaffected)


def row_of(one: Explanation, cost: Cost) -> dict[str, Any]:
    """The row of an explanation that is a finding by itself, without a number."""
    begin_ns, end_ns = one.extent_ns or (one.job.start_ns[one.first], one.job.end_ns[one.last])
    evidence = {
        **one.evidence,
        "normal_step_ns": round(cost.normal_ns),
        "slow_step_ns": round(cost.slow_ns),
        "step_share": round(cost.share, 4),
        "step_deviations": round(min(cost.deviations, 1e6), 1),
    }
    return {
        "level": one.level,
        "symptom": one.symptom,
        "cause": one.cause,
        "job": one.job.name,
        "culprit_kind": one.culprit_kind,
        "culprit": one.culprit,
        "first_step": one.first,
        "last_step": one.last,
        "start_ns": int(begin_ns),
        "end_ns": int(end_ns),
        "magnitude": one.magnitude,
        "cost": max(cost.lost_ns, 0.0),
        "confidence": one.confidence,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
