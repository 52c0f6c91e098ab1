"""Were the injected faults detected, and their culprits and causes named, without false alarms?

:mod:`prism_sim.score.alarms` says which finding is an alarm of which fault, and which is right. A
fault is *detected* if it has an alarm; *recall* = detected / injected. *Precision* is that of
culprits: findings that are right, in window and culprit, over those that are right or wrong. All
wrong ones are false alarms, given per 1,000 job-steps (true steps summed over jobs).

The *top* alarm of a fault is its alarm of highest confidence (ties: the earliest). Three figures
depend on it: *localized_top1*, the fraction of injected faults whose top alarm is right;
*cause_accuracy*, the fraction of detected faults whose top alarm gives a cause that
:func:`~prism_sim.score.alarms.causes_of` accepts for the kind of fault; and *steps_to_detect*,
the mean number of steps of the affected job from the first affected step to the first flagged one,
not below 0. The first flagged step is the one at the middle of the finding, or half a median step
after its start if that is earlier. For a method whose findings name only symptoms (no cause of any
fault), ``cause_accuracy`` is ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd

from prism_sim.score.alarms import (
    Alarms,
    affected_jobs,
    alarms_of,
    causes_of,
    known_causes,
    median_step,
    window_of,
)
from prism_sim.score.culprits import culprit_of
from prism_sim.score.declare import FRACTION, NS, Named, Words, descriptive, higher, lower, right
from prism_sim.score.extents import cost_error, overlap
from prism_sim.score.load import Case
from prism_sim.score.stats import mean, ratio


@dataclass(frozen=True)
class FaultFigures:
    """Results for the faults of some kind, or all."""

    injected: Annotated[int, descriptive("faults in the truth")]
    detected: Annotated[int, higher("faults with an alarm")]
    recall: Annotated[float | None, right("detected / injected")]
    localized_top1: Annotated[
        float | None, right("injected faults whose top alarm names the true culprit in its window")
    ]
    cause_accuracy: Annotated[
        float | None, right("detected faults whose top alarm gives the right cause")
    ]
    steps_to_detect: Annotated[
        float | None, lower("steps from the first affected one to the first flagged one")
    ]
    window_overlap: Annotated[
        float | None,
        right("overlap of the windows of fault and top alarm, 0 for faults without one: mean"),
    ]
    cost_error: Annotated[
        float | None,
        lower("error of the cost / time of the steps: mean of detected faults", FRACTION),
    ]


@dataclass(frozen=True)
class FaultMatch:
    """Result for one fault."""

    fault: Annotated[int, Words("number of the fault in the truth")]
    kind: Annotated[str, Words("kind of the fault")]
    culprit_kind: Annotated[str | None, Words("address, link or switch")]
    culprit: Annotated[str | None, Words("name of the culprit")]
    jobs: Annotated[list[str], Words("true jobs that it slows down")]
    start_ns: Annotated[int | None, descriptive("start of the fault", NS)]
    end_ns: Annotated[int | None, descriptive("end of the fault", NS)]
    alarms: Annotated[int, descriptive("findings that are alarms of this fault")]
    detected: Annotated[bool, higher("1 if it has an alarm")]
    localized: Annotated[bool, right("1 if its top alarm names the true culprit in its window")]
    cause_right: Annotated[bool | None, higher("1 if its top alarm gives the right cause")]
    steps_to_detect: Annotated[
        int | None, lower("steps from the first affected one to the first flagged one")
    ]
    window_overlap: Annotated[float, right("overlap of its window with that of its top alarm")]
    cost_error: Annotated[
        float | None, lower("error of its cost / time of the steps without it", FRACTION)
    ]
    finding: Annotated[int | None, descriptive("number of its top alarm", "")]


@dataclass(frozen=True)
class FaultsScore(FaultFigures):
    """Results for all faults, by kind and by fault, and numbers of alarms."""

    findings: Annotated[int, descriptive("findings in the diagnosis")]
    true_alarms: Annotated[int, higher("findings whose window and culprit are those of a fault")]
    false_alarms: Annotated[int, lower("findings with a wrong culprit or window")]
    uncounted: Annotated[
        int, descriptive("findings of a true hiccup of one step, or of a whole slow job")
    ]
    precision: Annotated[float | None, right("true alarms / (true and false alarms)")]
    false_alarms_per_1000_job_steps: Annotated[
        float | None, lower("false alarms in 1,000 job-steps")
    ]
    true_findings: Annotated[list[int], Words("numbers of the true alarms")]
    by_kind: Annotated[dict[str, FaultFigures], Named("FAULT")]
    matches: Annotated[list[FaultMatch], Named("FAULT")]


def score_faults(case: Case, alarms: Alarms | None = None) -> FaultsScore:
    """All figures, for all faults and for each kind, and the result for each fault."""
    alarms = alarms or alarms_of(case)
    findings, marks = alarms.findings, np.array(alarms.marks, str)
    asked = _names_causes(findings, case.truth["faults"])
    faults = [fault for _, fault in case.truth["faults"].iterrows()]
    matches = [
        _match(case, number, fault, alarms, asked=asked) for number, fault in enumerate(faults)
    ]
    true, false = int((marks == "right").sum()), int((marks == "wrong").sum())
    job_steps = len(case.truth["steps"][["job", "step"]].drop_duplicates())
    kinds = sorted({match.kind for match in matches})
    return FaultsScore(
        **vars(_figures(matches, asked=asked)),
        findings=len(findings),
        true_alarms=true,
        false_alarms=false,
        uncounted=len(findings) - true - false,
        precision=ratio(true, true + false),
        false_alarms_per_1000_job_steps=ratio(1000 * false, job_steps),
        true_findings=[int(n) for n in findings.loc[marks == "right", "finding"]],
        by_kind={kind: _figures([m for m in matches if m.kind == kind], asked=asked)
                 for kind in kinds},
        matches=matches,
    )  # fmt: skip


def _match(case: Case, number: int, fault: pd.Series, alarms: Alarms, *, asked: bool) -> FaultMatch:
    """Result for one fault, judged by its top alarm."""
    own = alarms.findings.assign(right=alarms.right[number])[alarms.of[number]]
    culprit_kind, culprit = culprit_of(fault, case.truth["ranks"]) or (None, None)
    start, end = window_of(fault)
    match = FaultMatch(
        fault=number,
        kind=str(fault["kind"]),
        culprit_kind=culprit_kind,
        culprit=culprit,
        jobs=affected_jobs(fault),
        start_ns=int(start) if np.isfinite(start) else None,
        end_ns=int(end) if np.isfinite(end) else None,
        alarms=len(own),
        detected=bool(len(own)),
        localized=False,
        cause_right=None,
        steps_to_detect=None,
        window_overlap=0.0,
        cost_error=None,
        finding=None,
    )
    if not len(own):
        return match
    order = {"confidence": False, "start_ns": True, "finding": True}
    top = own.sort_values([*order], ascending=[*order.values()]).iloc[0]
    return replace(
        match,
        finding=int(top["finding"]),
        localized=bool(top["right"]),
        cause_right=bool(top["cause"] in causes_of(match.kind)) if asked else None,
        steps_to_detect=_delay(case, fault, top),
        window_overlap=overlap(top, start, end),
        cost_error=cost_error(fault, own),
    )


def _figures(matches: list[FaultMatch], *, asked: bool) -> FaultFigures:
    found = [match for match in matches if match.detected]
    delays = [m.steps_to_detect for m in found if m.steps_to_detect is not None]
    right_causes = np.array([bool(match.cause_right) for match in found], bool)
    errors = [match.cost_error for match in found if match.cost_error is not None]
    return FaultFigures(
        injected=len(matches),
        detected=len(found),
        recall=ratio(len(found), len(matches)),
        localized_top1=mean(np.array([match.localized for match in matches], bool)),
        cause_accuracy=mean(right_causes) if asked else None,
        steps_to_detect=mean(np.array(delays, float)),
        window_overlap=mean(np.array([match.window_overlap for match in matches], float)),
        cost_error=mean(np.array(errors, float)),
    )


def _delay(case: Case, fault: pd.Series, finding: pd.Series) -> int | None:
    """Steps of the affected job from the first affected one to the first flagged one."""
    jobs = affected_jobs(fault)
    job = finding["true_job"] if finding["true_job"] in jobs else next(iter(jobs), None)
    steps = case.truth["steps"]
    steps = steps[steps["job"] == job]
    if not len(steps):
        return None
    borders = steps.groupby("step").agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    given = pd.notna(fault["from_step"]) and job == fault["job"]
    start = window_of(fault)[0]
    onset = int(fault["from_step"]) if given else _step_at(borders, start)
    half = median_step(case, [str(job)]) / 2
    middle = min((finding["start_ns"] + finding["end_ns"]) / 2, finding["start_ns"] + half)
    return max(0, _step_at(borders, middle) - onset)


def _step_at(borders: pd.DataFrame, time: float) -> int:
    """The step at ``time``, or the next one if there is none, or the last."""
    place = int(np.searchsorted(borders["end_ns"].to_numpy(), time, "right"))
    return int(borders.index[min(place, len(borders) - 1)])


def _names_causes(findings: pd.DataFrame, faults: pd.DataFrame) -> bool:
    return bool(findings["cause"].isin(known_causes(faults["kind"].astype(str))).any())
