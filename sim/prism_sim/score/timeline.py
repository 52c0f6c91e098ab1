"""How well was the timeline rebuilt, step by step and rank by rank?

Every (rank, step) of the truth is one sample, matched to an inferred step or not as
:mod:`prism_sim.score.matching` lays down. *coverage* = matched / true. For the durations

``step_error``
    of the step, first forward to end of optimizer, against inferred ``end_ns - start_ns``;
``dp_time_error``, ``pp_time_error``, ``compute_time_error``
    of the busy time of that kind in the step (:mod:`prism_sim.score.busy`), against the
    union of the diagnosis' spans of kind ``dp``, ``pp``, ``compute`` in the matched step;
``dp_end_error``
    between the end of the last DP collective of a step and that of the step before, for
    each two consecutive steps that both have one, against the difference of ``dp_end_ns``
    of the two matched steps (both must be matched)

the error is |inferred - true| / true, told as mean, p50, p95, p99, max and bias over what is
matched, and again as ``..._all_...`` with each unmatched one counted as an inferred time of
zero: error 1. Steps that truly have no such time have no relative error and are left out;
``dp_time_phantom_ns_mean`` and its like say how much the diagnosis puts there. A kind that
the spans of a capture do not record is ``None`` throughout.

Borders are told in nanoseconds, of matched steps only: ``boundary_abs_error_ns`` is the end of
the step, ``start_boundary_abs_error_ns`` its start;
``boundary_bias_ns`` and ``start_boundary_bias_ns`` are positive where inferred is late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from llmprism import kinds
from prism_sim.score.busy import pack, true_work, union_length
from prism_sim.score.load import Case, Flags, Floats, Ints
from prism_sim.score.matching import Match, match_steps
from prism_sim.score.stats import mean, ratio, relative_errors, spread

KINDS = kinds.SPANS


def score_timeline(case: Case) -> dict[str, Any]:
    """All figures over all jobs, and under ``per_job`` the same for each true job."""
    match = match_steps(case)
    samples = samples_of(case, match)
    per_job = {str(job): figures_of(part) for job, part in samples.groupby("job")}
    rows = match.row[match.row >= 0]
    return {
        **figures_of(samples),
        "steps_inferred": len(match.inferred),
        "steps_unexplained": len(match.inferred) - len(np.unique(rows)),
        "per_job": per_job,
    }


def samples_of(case: Case, match: Match) -> pd.DataFrame:
    """One row a true (rank, step): its times [ns], and those of its inferred step or NaN.

    Rows are those of ``match.true``. ``<name>_true`` and ``<name>_said`` are durations of the
    step (``step``), from DP end to DP end (``period``), and busy times by kind (``dp``, ...).
    """
    true, inferred = match.true, match.inferred
    samples = pd.DataFrame({"job": true["job"].astype(str), "fate": match.fate})
    for border in ("start_ns", "end_ns"):
        samples[f"{border}_true"] = true[border]
        late = _taken(inferred[border], match.row, -true[border].to_numpy(np.int64))
        samples[f"{border}_late"] = late
    samples["step_true"] = (true["end_ns"] - true["start_ns"]).astype(float)
    samples["step_said"] = _taken(inferred["end_ns"] - inferred["start_ns"], match.row)
    work = true_work(case)
    for kind in KINDS:
        samples[f"{kind}_true"] = _true_busy(true, work[kind])
        samples[f"{kind}_said"] = _said_busy(case, match, kind)
    return _with_dp_periods(samples, match, work["dp"])


def _taken(column: pd.Series, row: Ints, shift: Ints | int = 0) -> Floats:
    """``column`` at ``row`` plus ``shift``, summed before it leaves the integers; NaN at row -1."""
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


def _said_busy(case: Case, match: Match, kind: str) -> Floats:
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
    """Add the time from one step's last DP end to the next one's, true and said [ns]."""
    step = _step_of(match.true, spans)
    ends = spans["own_end_ns"][step >= 0].groupby(step[step >= 0]).max()
    rank, number = match.true["rank_row"].to_numpy(), match.true["step"].to_numpy()
    follows = np.append(False, (np.diff(rank) == 0) & (np.diff(number) == 1))[: len(rank)]
    true = _differences(ends.reindex(range(len(rank))), follows)
    said = _differences(match.inferred["dp_end_ns"].astype("Int64").reindex(match.row), follows)
    return samples.assign(period_true=true, period_said=said)


def _differences(ends: pd.Series, follows: Flags) -> Floats:
    """From the value before to this one [ns], as whole numbers, where a step follows."""
    values = ends.array.astype("Int64")
    periods = pd.Series(values).diff().to_numpy(float, na_value=np.nan)
    return np.where(follows, periods, np.nan)


def figures_of(samples: pd.DataFrame) -> dict[str, Any]:
    """Coverage, errors and borders, as told at the head of this module, of some samples."""
    fates = samples["fate"].value_counts()
    matched = samples["fate"] == "matched"
    figures: dict[str, Any] = {
        "steps_true": len(samples),
        **{f"steps_{fate}": int(fates.get(fate, 0)) for fate in ("matched", "split", "merged")},
        "steps_missed": int(fates.get("missed", 0)),
        "coverage": ratio(int(matched.sum()), len(samples)),
        **_errors(samples, "step_error", "step"),
    }
    for kind in KINDS:
        figures |= _errors(samples, f"{kind}_time_error", kind)
        phantom = samples.loc[matched & (samples[f"{kind}_true"] == 0), f"{kind}_said"]
        figures[f"{kind}_time_phantom_ns_mean"] = mean(phantom.to_numpy(float))
    figures |= _errors(samples, "dp_end_error", "period")
    defined = samples["period_true"] > 0
    both = int(samples.loc[defined, "period_said"].notna().sum())
    figures["dp_end_coverage"] = ratio(both, int(defined.sum()))
    for border, name in (("end_ns", "boundary"), ("start_ns", "start_boundary")):
        late = samples.loc[matched, f"{border}_late"].to_numpy(float)
        figures |= spread(f"{name}_abs_error_ns", np.abs(late))
        figures[f"{name}_bias_ns"] = mean(late)
    return figures


def _errors(samples: pd.DataFrame, prefix: str, name: str) -> dict[str, Any]:
    true, said = samples[f"{name}_true"], samples[f"{name}_said"]
    return relative_errors(prefix, true.to_numpy(float), said.to_numpy(float))
