"""How sure a method is of its answers, and how often it is right: counts by confidence.

Only counts are kept of a world: for each table and each bin of confidence the number of answers,
the sum of their confidences, how many are right, and the sum of squared distances between the two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from prism_sim.score.alarms import Alarms
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case
from prism_sim.score.matching import match_steps

BINS = (0.0, 0.5, 0.7, 0.85, 0.95, 1.0)
"""Bounds of the bins of confidence; the last bin has its upper bound as well."""

Counts = list[list[float]]
"""For each bin: answers, sum of confidences, right ones, sum of squared distances."""


def of_case(case: Case, alarms: Alarms) -> dict[str, Counts]:
    """The counts of every table with a confidence."""
    return {name: counted(frame) for name, frame in _answers(case, alarms)}


def counted(answers: pd.DataFrame) -> Counts:
    """Counts of answers with the columns ``confidence`` and ``right``.

    >>> counted(pd.DataFrame({"confidence": [0.9, 1.0], "right": [True, False]}))[3:]
    [[1.0, 0.9, 1.0, 0.01], [1.0, 1.0, 0.0, 1.0]]
    """
    sure = answers["confidence"].to_numpy(float)
    right = answers["right"].to_numpy(float)
    known = ~np.isnan(sure)
    sure, right = sure[known], right[known]
    place = np.clip(np.digitize(sure, BINS) - 1, 0, len(BINS) - 2)
    sums = [
        np.bincount(place, weights, len(BINS) - 1)
        for weights in (np.ones(len(sure)), sure, right, (sure - right) ** 2)
    ]
    return [[round(float(value), 6) for value in row] for row in np.transpose(sums)]


def _answers(case: Case, alarms: Alarms) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "pairs", _pairs(case)
    yield "layouts", _layouts(case)
    match = match_steps(case)
    steps = match.inferred.assign(right=False)
    steps.loc[match.row[match.row >= 0], "right"] = True
    yield "steps", steps
    counts = np.isin(alarms.marks, ("right", "wrong"))
    for name, right in (("findings", alarms.of), ("culprits", alarms.right)):
        yield name, alarms.findings.assign(right=np.asarray(right.any(axis=0)))[counts]


def _pairs(case: Case) -> pd.DataFrame:
    """Kinds of pairs that the method does not call unknown."""
    pairs = case.diagnosis["pairs"].query("kind != 'unknown'")
    true = case.truth["pairs"][["src", "dst", "kind"]].drop_duplicates().assign(right=True)
    both = pairs.merge(true, on=["src", "dst", "kind"], how="left")
    return both.assign(right=both["right"].eq(True))


def _layouts(case: Case) -> pd.DataFrame:
    """Layouts of found jobs, right if dp, pp and tp are those of the true job."""
    ranks, true = case.truth["ranks"], true_job_of(case)
    layouts = case.diagnosis["layouts"]
    layouts = layouts[layouts["job"].isin(true) & (layouts["dp"] > 0)]
    sizes = ranks.groupby("job")[["dp", "pp", "tp"]].nunique()
    right = [
        all(sizes.at[true[row["job"]], axis] == row[axis] for axis in sizes.columns)
        for row in layouts.to_dict("records")
    ]
    return layouts.assign(right=np.array(right, bool))
