"""Paired differences: two results on the same worlds, and what one has more than the other.

What is hard in a world is hard for both, so the difference of two methods, or of two commits, has
a far narrower interval than each of the two figures. A figure is a sum over worlds divided by
another (:mod:`~evaluation.exam.measures`). Its standard error comes from worlds that are drawn
again with replacement, the same ones for both (paired bootstrap); 1.96 of them make an interval of
95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.exam.intervals import DEVIATIONS, DRAWS
from evaluation.exam.measures import MEASURES, Measure
from prism_sim.toolkit import table

Row = dict[str, Any]
_SEED = 58


@dataclass(frozen=True)
class Difference:
    """One figure of two results, and by how much the second one is higher.

    Attributes
    ----------
    before, after : the figure of each; None where it is not defined.
    half : 1.96 standard errors of ``after - before``; None if a figure is not defined.
    size : of the second result: what the figure is a share of.
    """

    measure: Measure
    before: float | None
    after: float | None
    half: float | None
    size: float

    @property
    def change(self) -> float | None:
        """``after - before``."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` if the interval does not contain zero."""
        if self.change is None or self.half is None or abs(self.change) <= self.half:
            return ""
        return "better" if (self.change > 0) == self.measure.more_is_better else "worse"


def differences(
    before: Sequence[Row], after: Sequence[Row], measures: Sequence[Measure] = MEASURES
) -> list[Difference]:
    """Every figure of two lists of results with one grade each, on the worlds that both have."""
    couples = common(before, after)
    return [_difference(measure, couples) for measure in measures]


def common(before: Sequence[Row], after: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The results of the worlds that are in both, in the order of the first."""
    second = {_world(row): row for row in after}
    return [(row, second[_world(row)]) for row in before if _world(row) in second]


def as_table(found: Iterable[Difference], names: tuple[str, str]) -> str:
    """The differences in Markdown: shares in percent, differences with 1.96 standard errors."""
    rows = [
        [
            one.measure.name,
            f"{one.size:.4g}",
            one.measure.written(one.before),
            one.measure.written(one.after),
            _change(one),
            one.verdict,
        ]
        for one in found
    ]
    return table(["figure", "of", *names, "difference", ""], rows)


def changes(before: Sequence[Row], after: Sequence[Row]) -> Iterator[str]:
    """A line for every due fault that only one of the two names first."""
    for one, other in common(before, after):
        grades = (grade_of(one)["faults"], grade_of(other)["faults"])
        for fault, was, now in zip(one["faults"], *grades, strict=True):
            if fault["due"] and bool(was["first"]) != bool(now["first"]):
                sign = "+" if now["first"] else "-"
                yield f"{sign} {one['family']} {one['seed']} {fault['kind']}"


def grade_of(row: Mapping[str, Any]) -> Row:
    """The only grade in the result of a world."""
    (grade,) = row["methods"].values()
    return dict(grade)


def _world(row: Row) -> tuple[str, int]:
    return row["family"], row["seed"]


def _difference(measure: Measure, couples: Sequence[tuple[Row, Row]]) -> Difference:
    counts = np.array(
        [[measure.counts(row, grade_of(row)) for row in couple] for couple in couples], float
    ).reshape(-1, 2, 2)
    (before, after), size = _ratios(counts.sum(axis=0)), counts[:, 1, 1].sum()
    half = None
    if not np.isnan([before, after]).any():
        half = DEVIATIONS * _standard_error(counts)
    return Difference(measure, _known(before), _known(after), half, float(size))


def _standard_error(counts: NDArray[np.float64]) -> float:
    """Of the difference of the two ratios; counts of shape (worlds, 2 results, hits and size)."""
    chosen = np.random.default_rng(_SEED).integers(len(counts), size=(DRAWS, len(counts)))
    ratios = _ratios(counts[chosen].sum(axis=1))
    return float(np.nanstd(ratios[:, 1] - ratios[:, 0]))


def _ratios(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    hits, sizes = sums[..., 0], sums[..., 1]
    ratios = np.full(hits.shape, np.nan)
    np.divide(hits, sizes, out=ratios, where=sizes > 0)
    return ratios


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _change(one: Difference) -> str:
    if one.change is None or one.half is None:
        return "-"
    return f"{one.measure.plain(one.change, sign=True)} ± {one.measure.plain(one.half)}"
