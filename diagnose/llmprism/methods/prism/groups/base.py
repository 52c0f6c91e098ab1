"""What a kind of culprit is: which rows it owns, what it is called, which causes it explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llmprism.methods.prism.baseline import spread
from llmprism.methods.prism.durations import COMPUTE, TRANSFER, Durations
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import nanmedian


@dataclass(frozen=True)
class Named:
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


Namer = Callable[[Durations, Window], Named | None]


@dataclass(frozen=True)
class Group:
    """Rows of a table that one culprit owns, as one series.

    Attributes
    ----------
    table : of the rows, COMPUTE or TRANSFER; WORK if all of the job takes part.
    rows : the rows.
    siblings : groups of this kind in the job.
    excess : mean excess of the rows in each step, shape (steps,).
    error : standard deviation of it.
    lost_ns : what the rows lost on the critical path in each step.
    named : names the culprit for a window.
    is_part : whether these rows are slow and others of the job need not be.
    found : the best window, if the series alone does not tell.
    """

    table: str
    rows: Ints
    siblings: int
    excess: Floats
    error: float
    lost_ns: Floats
    named: Namer
    is_part: bool = False
    found: Window | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it is about all ranks of the job."""
        return not self.is_part and self.table != TRANSFER


GroupsOf = Callable[[Durations], Iterable[Group]]
"""Makes all groups of one kind."""


def of_ranks(durations: Durations, members: Sequence[tuple[Ints, Namer]]) -> list[Group]:
    """Groups of ranks, without what all ranks of the job have in common."""
    table = durations.compute
    base = table.excess - _together(durations)
    known = [(rows[table.normal_ns[rows] > 0], namer) for rows, namer in members]
    known = [(rows, namer) for rows, namer in known if rows.size]
    if not known:
        return []
    series = np.array([_mean(base[rows]) for rows, _ in known])
    errors = group_errors(series, [table.error[rows] for rows, _ in known])
    lost = durations.on_path.lost_ns
    return [
        Group(COMPUTE, rows, len(known), series[i], float(errors[i]), lost(rows), namer, True)
        for i, (rows, namer) in enumerate(known)
    ]


def rows_of(durations: Durations, group: Group) -> tuple[Floats, Floats]:
    """Excess of each rank of a group beside what all have in common, and its error."""
    table = durations.compute
    return table.excess[group.rows] - _together(durations), table.error[group.rows]


def _together(durations: Durations) -> Floats:
    """By how much all ranks are slower in each step."""
    common: Floats = np.maximum(np.nan_to_num(durations.common), 0.0)
    return common


def _mean(excess: Floats) -> Floats:
    """Mean of the known rows in each step; NaN where none is known."""
    count = np.isfinite(excess).sum(axis=0)
    mean: Floats = np.where(count > 0, np.nansum(excess, axis=0) / np.maximum(count, 1), np.nan)
    return mean


def group_errors(series: Floats, of_rows: list[Floats]) -> Floats:
    """Error of each series: from all of them, but no less than if its rows were independent.

    Rows of one group often vary together; the series itself shows by how much.
    """
    own = spread(series)
    pooled = nanmedian(own[None], axis=1)[0]
    least = np.array([float(np.sqrt((rows**2).sum())) / rows.size for rows in of_rows])
    together = np.sqrt((np.nan_to_num(own, nan=pooled) ** 2 + np.nan_to_num(pooled) ** 2) / 2)
    errors: Floats = np.maximum(together, least)
    return errors
