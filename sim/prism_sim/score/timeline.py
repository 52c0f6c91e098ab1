"""Compare the inferred timeline with the truth, step by step and rank by rank.

Every (rank, step) of the truth is one sample. :mod:`prism_sim.score.matching` matches it to an
inferred step, or to none. *coverage* = matched / true. For the durations

``step_error``
    of the step, first forward to end of optimizer, against inferred ``end_ns - start_ns``;
``dp_time_error``, ``pp_time_error``, ``compute_time_error``
    of the busy time of that kind in the step (:mod:`prism_sim.score.busy`), against the
    union of the diagnosis' spans of kind ``dp``, ``pp``, ``compute`` in the matched step;
``dp_end_error``
    between the end of the last DP collective of a step and that of the step before, for
    each two consecutive steps that both have one, against the difference of ``dp_end_ns``
    of the two matched steps (both must be matched)

the error is |inferred - true| / true, given as mean, p50, p95, p99, max and bias over what is
matched, and again as ``..._all_...`` with each unmatched one counted as an inferred time of
zero: error 1. Steps that truly have no such time have no relative error and are left out;
``dp_time_phantom_ns_mean`` and its like give the time that the diagnosis puts there. A kind that
the spans of a capture do not record is ``None`` throughout.

Borders are given in nanoseconds, of matched steps only: ``boundary_abs_error_ns`` is the end of
the step, ``start_boundary_abs_error_ns`` its start;
``boundary_bias_ns`` and ``start_boundary_bias_ns`` are positive where inferred is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd

from prism_common import kinds
from prism_sim.score.busy import pack, true_work, union_length
from prism_sim.score.declare import (
    FRACTION,
    NS,
    Figure,
    Joined,
    Named,
    descriptive,
    higher,
    lower,
    near_zero,
    right,
)
from prism_sim.score.load import Case, Flags, Floats, Ints
from prism_sim.score.matching import Match, match_steps
from prism_sim.score.stats import RelativeErrors, Spread, mean, ratio

KINDS = kinds.SPANS

_LEAST_SHARE = 2e-3  # a change of steps matched that a reader would care about
_LEAST_NS = {"absolute": 1000.0, "relative": 0.02}


def _relative(subject: str) -> Joined:
    """Relative errors of ``subject``; they may move by 2 % or by 0.0002."""
    return Joined(f"relative error of {subject}", FRACTION, absolute=2e-4, relative=0.02)


def _absolute(subject: str) -> Joined:
    return Joined(f"absolute error of {subject}", NS, **_LEAST_NS)


def _phantom(kind: str) -> Figure:
    return lower(f"mean inferred {kind} time of steps that truly have none", NS, **_LEAST_NS)


def _bias(border: str) -> Figure:
    return near_zero(f"mean of inferred minus true {border} of a step", NS, **_LEAST_NS)


@dataclass(frozen=True)
class TimelineFigures:
    """Coverage, errors and borders of some (rank, step) samples."""

    steps_true: Annotated[int, descriptive("(rank, step) samples in the truth")]
    steps_matched: Annotated[
        int, higher("true steps matched by one inferred step", relative=_LEAST_SHARE)
    ]
    steps_split: Annotated[int, lower("true steps cut into several", relative=_LEAST_SHARE)]
    steps_merged: Annotated[int, lower("true steps merged with others", relative=_LEAST_SHARE)]
    steps_missed: Annotated[int, lower("true steps without an inferred one", relative=_LEAST_SHARE)]
    coverage: Annotated[float | None, right("steps matched / steps true")]
    step_error: Annotated[RelativeErrors, _relative("the step duration")]
    dp_time_error: Annotated[RelativeErrors, _relative("the DP communication time of a step")]
    dp_time_phantom_ns_mean: Annotated[float | None, _phantom("DP communication")]
    pp_time_error: Annotated[RelativeErrors, _relative("the PP communication time of a step")]
    pp_time_phantom_ns_mean: Annotated[float | None, _phantom("PP communication")]
    compute_time_error: Annotated[RelativeErrors, _relative("the computation time of a step")]
    compute_time_phantom_ns_mean: Annotated[float | None, _phantom("computation")]
    dp_end_error: Annotated[RelativeErrors, _relative("the time from DP end to DP end")]
    dp_end_coverage: Annotated[
        float | None, right("periods from DP end to DP end with both ends matched")
    ]
    boundary_abs_error_ns: Annotated[Spread, _absolute("the end of a step")]
    boundary_bias_ns: Annotated[float | None, _bias("end")]
    start_boundary_abs_error_ns: Annotated[Spread, _absolute("the start of a step")]
    start_boundary_bias_ns: Annotated[float | None, _bias("start")]


@dataclass(frozen=True)
class TimelineScore(TimelineFigures):
    """The figures over all jobs, and those of each."""

    steps_inferred: Annotated[int, descriptive("steps in the diagnosis")]
    steps_unexplained: Annotated[int, lower("inferred steps that match no true step")]
    per_job: Annotated[dict[str, TimelineFigures], Named("JOB")]


def score_timeline(case: Case) -> TimelineScore:
    """All figures over all jobs, and under ``per_job`` the same for each true job."""
    match = match_steps(case)
    samples = samples_of(case, match)
    per_job = {str(job): figures_of(part) for job, part in samples.groupby("job")}
    rows = match.row[match.row >= 0]
    return TimelineScore(
        **vars(figures_of(samples)),
        steps_inferred=len(match.inferred),
        steps_unexplained=len(match.inferred) - len(np.unique(rows)),
        per_job=per_job,
    )


def samples_of(case: Case, match: Match) -> pd.DataFrame:
    """One row a true (rank, step): its times [ns], and those of its inferred step or NaN.

    Rows are those of ``match.true``. ``<name>_true`` and ``<name>_inferred`` are durations of the
    step (``step``), from DP end to DP end (``period``), and busy times by kind (``dp``, ...).
    """
    true, inferred = match.true, match.inferred
    samples = pd.DataFrame({"job": true["job"].astype(str), "fate": match.fate})
    for border in ("start_ns", "end_ns"):
        samples[f"{border}_true"] = true[border]
        late = _taken(inferred[border], match.row, -true[border].to_numpy(np.int64))
        samples[f"{border}_late"] = late
    samples["step_true"] = (true["end_ns"] - true["start_ns"]).astype(float)
    samples["step_inferred"] = _taken(inferred["end_ns"] - inferred["start_ns"], match.row)
    work = true_work(case)
    for kind in KINDS:
        samples[f"{kind}_true"] = _true_busy(true, work[kind])
        samples[f"{kind}_inferred"] = _inferred_busy(case, match, kind)
    return _with_dp_periods(samples, match, work["dp"])


def _taken(column: pd.Series, row: Ints, shift: Ints | int = 0) -> Floats:
    """``column`` at ``row`` plus ``shift``, added as integers; NaN at row -1."""
    if not len(column):
        return np.full(len(row), np.nan)
    values = column.to_numpy()[np.maximum(row, 0)] + shift
    return np.where(row >= 0, values.astype(float), np.nan)


def _step_of(steps: pd.DataFrame, spans: pd.DataFrame) -> Ints:
    """Row of ``steps`` that each span belongs to by (rank_row, step); -1 if none."""
    both = pd.concat([steps[["rank_row", "step"]], spans[["rank_row", "step"]]])
    both = both.fillna(-1).astype(np.int64)
    key = pack(both["rank_row"].to_numpy(), both["step"].to_numpy())
    return pd.Index(key[: len(steps)]).get_indexer(pd.Index(key[len(steps) :])).astype(np.int64)


def _true_busy(steps: pd.DataFrame, spans: pd.DataFrame) -> Floats:
    step = _step_of(steps, spans)
    known = step >= 0
    start, end = spans["start_ns"].to_numpy()[known], spans["end_ns"].to_numpy()[known]
    if not len(start):
        return np.full(len(steps), np.nan)
    return union_length(step[known], start, end, len(steps)).astype(float)


def _inferred_busy(case: Case, match: Match, kind: str) -> Floats:
    spans = case.diagnosis["spans"]
    spans = spans[spans["kind"] == kind]
    names = ["job", "address", "step"]
    where = pd.MultiIndex.from_frame(match.inferred[names])
    step = where[~where.duplicated()].get_indexer(pd.MultiIndex.from_frame(spans[names]))
    step = np.flatnonzero(~where.duplicated())[step] if len(where) else step
    known = step >= 0
    start, end = spans["start_ns"].to_numpy()[known], spans["end_ns"].to_numpy()[known]
    length = union_length(step[known].astype(np.int64), start, end, len(match.inferred))
    return _taken(pd.Series(length), match.row)


def _with_dp_periods(samples: pd.DataFrame, match: Match, spans: pd.DataFrame) -> pd.DataFrame:
    """Add the time from one step's last DP end to the next one's, true and inferred [ns].

    An evaluation after a step gathers sharded parameters; that is no part of the step.
    """
    step = _step_of(match.true, spans)
    inside = step >= 0
    until = match.true["end_ns"].to_numpy()[step[inside]]
    inside[inside] = spans["start_ns"].to_numpy()[inside] < until
    ends = spans["own_end_ns"][inside].groupby(step[inside]).max()
    rank, number = match.true["rank_row"].to_numpy(), match.true["step"].to_numpy()
    follows = np.append(False, (np.diff(rank) == 0) & (np.diff(number) == 1))[: len(rank)]
    true = _differences(ends.reindex(range(len(rank))), follows)
    inferred = _differences(match.inferred["dp_end_ns"].astype("Int64").reindex(match.row), follows)
    return samples.assign(period_true=true, period_inferred=inferred)


def _differences(ends: pd.Series, follows: Flags) -> Floats:
    """Difference to the previous value [ns], as integers, where a step follows."""
    values = ends.array.astype("Int64")
    periods = pd.Series(values).diff().to_numpy(float, na_value=np.nan)
    return np.where(follows, periods, np.nan)


def figures_of(samples: pd.DataFrame) -> TimelineFigures:
    """Coverage, errors and borders of some samples, as defined in the docstring of this module."""
    fates = samples["fate"].value_counts()
    matched = samples["fate"] == "matched"
    figures: dict[str, Any] = {
        f"steps_{fate}": int(fates.get(fate, 0))
        for fate in ("matched", "split", "merged", "missed")
    }
    for kind in KINDS:
        figures[f"{kind}_time_error"] = _errors(samples, kind)
        phantom = samples.loc[matched & (samples[f"{kind}_true"] == 0), f"{kind}_inferred"]
        figures[f"{kind}_time_phantom_ns_mean"] = mean(phantom.to_numpy(float))
    for border, name in (("end_ns", "boundary"), ("start_ns", "start_boundary")):
        late = samples.loc[matched, f"{border}_late"].to_numpy(float)
        figures[f"{name}_abs_error_ns"] = Spread.of(np.abs(late))
        figures[f"{name}_bias_ns"] = mean(late)
    return TimelineFigures(
        steps_true=len(samples),
        coverage=ratio(int(matched.sum()), len(samples)),
        step_error=_errors(samples, "step"),
        dp_end_error=_errors(samples, "period"),
        dp_end_coverage=_period_coverage(samples),
        **figures,
    )


def _period_coverage(samples: pd.DataFrame) -> float | None:
    defined = samples["period_true"] > 0
    both = int(samples.loc[defined, "period_inferred"].notna().sum())
    return ratio(both, int(defined.sum()))


def _errors(samples: pd.DataFrame, name: str) -> RelativeErrors:
    true, inferred = samples[f"{name}_true"], samples[f"{name}_inferred"]
    return RelativeErrors.between(true.to_numpy(float), inferred.to_numpy(float))
