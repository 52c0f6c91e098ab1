"""What a cause brings forward, and its row in the table of findings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.tables import DIAGNOSIS
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.suspects.at_once import Stretch
from llmprism.methods.prism.faults.suspects.cost import Cost, cost_of
from llmprism.numerics.missing import finite_median


@dataclass(frozen=True)
class Suspect:
    """Something that was slow in a stretch of steps of one job.

    Attributes
    ----------
    level : what was compared: rank, network or group.
    symptom, cause : what was seen, and what explains it.
    culprit_kind, culprit : address, server, link, switch or group, and its name.
    first, last : steps.
    magnitude : share of speed that is lost, in [0, 1].
    confidence : in [0, 1].
    evidence : the numbers behind it.
    lost : the cost where it is known without a comparison of steps.
    lost_share : time that the culprit itself lost in a step, as a share of the job's usual step,
        where known.
    extent_ns : begin and end where they are known better than by steps [ns].
    weight : of two suspects of which one waits for the other, the one with more weight is slow.
    beside : stretches of others that slow the job as well, whose cost is not its own.
    as_ever : addresses in pipelines whose own collectives take as long as ever, where those of
        others are slow, and servers with such an address.
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
    lost: Cost | None = None
    lost_share: float | None = None
    extent_ns: tuple[int, int] | None = None
    weight: float = 0.0
    beside: tuple[Stretch, ...] = ()
    as_ever: frozenset[str] = frozenset()

    @cached_property
    def cost(self) -> Cost:
        """What the stretch costs the job: ``lost``, or else from a comparison of steps."""
        return self.lost or cost_of(self.job, self.first, self.last, self.beside)

    @property
    def names(self) -> list[str]:
        """The culprit, and which others it may be."""
        return [*dict.fromkeys((self.culprit, *map(str, self.evidence.get("one_of", ()))))]

    def may_be(self, other: Suspect) -> bool:
        """Whether both may be the same rank, or the same part of the network."""
        return not set(self.names).isdisjoint(other.names)

    @property
    def longer_share(self) -> float:
        """By how much steps are longer, as a share of the job's usual step, as ``lost_share`` is.

        The usual step is a slow one where most of them are.
        """
        return self.cost.share * self.cost.normal_ns / max(self.job.period_ns, 1.0)

    @property
    def is_believed(self) -> bool:
        """Whether it cost its job time, and lost a good part of that itself.

        If not, it waited for another.
        """
        part = EXPLAINED if self.level == "network" else OWN_PART
        explains = self.lost_share is None or self.lost_share >= part * self.longer_share
        return self.cost.believed and explains


EXPLAINED = 0.3  # of what the steps of the job are longer: less is explained by something else
OWN_PART = 0.45  # ... and what a rank or stage loses itself: about half, as it is known roughly

Cause = Callable[[Context], Iterable[Suspect]]
"""Brings forward suspects of one cause; the costs are verified afterwards."""


def common_steps(one: Suspect, other: Suspect) -> int:
    """How many steps two stretches share."""
    return max(0, min(one.last, other.last) - max(one.first, other.first) + 1)


def overlap(one: Suspect, other: Suspect) -> float:
    """Share of the steps of ``one`` that ``other`` has too."""
    return common_steps(one, other) / (one.last - one.first + 1)


def adds_nothing(one: Suspect, other: Suspect) -> bool:
    """Whether another rank of the job is slow for longer, and ``one`` makes no step longer still.

    Where messages are lost, ranks look slow in a step now and then; some of these steps are slow.
    """
    if {one.level, other.level} != {"rank"} or other.job is not one.job or one.lost or other.lost:
        return False
    if not (other.first <= one.first and one.last <= other.last):
        return False
    length_ns = other.job.duration_ns[other.first : other.last + 1]
    own = slice(one.first - other.first, one.last - other.first + 1)
    rest_ns = np.delete(length_ns, own)
    if np.isfinite(rest_ns).sum() < one.last - one.first + 1:
        return False
    longer_ns = finite_median(length_ns[own]) - finite_median(rest_ns)
    return longer_ns < EXPLAINED * (one.cost.slow_ns - one.cost.normal_ns)


def table_of(suspects: Iterable[Suspect]) -> pd.DataFrame:
    """``suspects`` in order of time, as the table ``findings``."""
    rows = [_row(one) for one in suspects]
    rows.sort(key=lambda row: (row["start_ns"], row["job"], row["culprit"]))
    table = pd.DataFrame(rows, columns=DIAGNOSIS["findings"].names)
    return table.assign(finding=range(len(table)))


def _row(one: Suspect) -> dict[str, Any]:
    cost = one.cost
    begin_ns, end_ns = one.extent_ns or (one.job.start_ns[one.first], one.job.end_ns[one.last])
    evidence = {
        **one.evidence,
        **({} if one.lost_share is None else {"lost_share_of_a_step": round(one.lost_share, 4)}),
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
        "cost": cost.lost_ns,
        "confidence": one.confidence,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
