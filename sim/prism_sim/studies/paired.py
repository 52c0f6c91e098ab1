"""Means of figures over worlds, and paired differences between methods, with intervals.

All methods see the same worlds, so the difference is taken in each world first: what is hard in one
world is hard for all methods and cancels. The interval of a mean of n values is that of Student's
t distribution with n - 1 degrees of freedom, for a confidence of 95 %. It holds for independent
worlds, and is approximate for few of them or for fractions near 0 or 1; it ends at values that the
figure cannot have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from prism_sim.score import CATALOGUE
from prism_sim.score.declare import FRACTION, Better

CONFIDENCE = 0.95

COMPARED = (
    "jobs.accuracy",
    "pairs.accuracy",
    "timeline.coverage",
    "timeline.step_error_all_mean",
    "faults.recall",
    "faults.localized_top1",
    "faults.precision",
    "faults.false_alarms_per_1000_job_steps",
)
"""The figures of comparisons."""


@dataclass(frozen=True)
class Estimate:
    """A mean over ``worlds`` values, and its interval; None where it is not defined."""

    mean: float | None
    low: float | None
    high: float | None
    worlds: int

    @classmethod
    def of(cls, values: pd.Series) -> Estimate:
        """The mean of ``values`` that are not missing."""
        known = values.dropna().to_numpy(np.float64)
        if not known.size:
            return cls(None, None, None, 0)
        mean = float(known.mean())
        if known.size < 2:
            return cls(mean, None, None, 1)
        from scipy.special import stdtrit

        t = float(stdtrit(known.size - 1, (1 + CONFIDENCE) / 2))
        half = t * float(known.std(ddof=1)) / math.sqrt(known.size)
        return cls(mean, mean - half, mean + half, known.size)

    def within(self, figure: str) -> Estimate:
        """The same, with an interval of values that the figure can have: a share is in [0, 1]."""
        known = CATALOGUE.find(figure)
        if known is None or known.is_signed or self.low is None or self.high is None:
            return self
        most = 1.0 if known.unit == FRACTION and known.better is Better.HIGHER else math.inf
        return replace(self, low=max(self.low, 0.0), high=min(self.high, most))

    @property
    def half(self) -> float:
        """Half of the width of the interval; not a number where it is not defined."""
        return math.nan if self.low is None or self.high is None else (self.high - self.low) / 2


def compared(
    table: pd.DataFrame, reference: str, figures: Sequence[str] = COMPARED
) -> dict[str, Any]:
    """All estimates of a table of results, for a JSON document.

    ``methods`` has for each method its figures, time, memory and failures; ``differences`` has for
    each method but ``reference`` its differences from that one, and a verdict for each: ``better``,
    ``worse``, or ``unclear`` if the interval contains zero.
    """
    methods = [*dict.fromkeys(table["method"])]
    by_method = {method: table[table["method"] == method].set_index("world") for method in methods}
    return {
        "reference": reference,
        "worlds": len(by_method[reference]),
        "shares": [name for name in figures if _is_share(name)],
        "methods": {name: _of_method(rows, figures) for name, rows in by_method.items()},
        "differences": {
            name: dict(_differences(rows, by_method[reference], figures))
            for name, rows in by_method.items()
            if name != reference
        },
    }


def _of_method(rows: pd.DataFrame, figures: Sequence[str]) -> dict[str, Any]:
    seconds, memory = rows["seconds"].median(), rows["peak_memory_bytes"].median()
    return {
        "figures": {
            name: asdict(Estimate.of(_column(rows, name)).within(name)) for name in figures
        },
        "seconds_median": None if pd.isna(seconds) else float(seconds),
        "peak_memory_bytes_median": None if pd.isna(memory) else float(memory),
        "left_out": _left_out(rows),
        "failures": rows["reason"].dropna().value_counts().to_dict(),
        "errors": sorted(set(rows["error"].dropna())),
    }


def _is_share(figure: str) -> bool:
    known = CATALOGUE.find(figure)
    return known is not None and known.unit == FRACTION and known.better is Better.HIGHER


def _left_out(rows: pd.DataFrame) -> list[str]:
    """The tables that a method did not give in some world."""
    if "left_out" not in rows:
        return []
    return sorted({name for names in rows["left_out"].dropna() for name in names.split()})


def _differences(
    rows: pd.DataFrame, reference: pd.DataFrame, figures: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in figures:
        found = Estimate.of(_column(rows, name) - _column(reference, name))
        yield name, {**asdict(found), "verdict": _verdict(name, found)}


def _column(rows: pd.DataFrame, name: str) -> pd.Series:
    if name not in rows:
        return pd.Series(np.nan, rows.index)
    return rows[name].astype(np.float64)


def _verdict(name: str, difference: Estimate) -> str:
    if difference.low is None or difference.high is None:
        return "unclear"
    if difference.low <= 0 <= difference.high:
        return "same" if difference.low == difference.high == 0 else "unclear"
    figure = CATALOGUE.find(name)
    wants_more = figure is not None and figure.better is Better.HIGHER
    return "better" if (difference.low > 0) == wants_more else "worse"
