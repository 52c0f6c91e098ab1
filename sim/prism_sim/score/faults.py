"""Were the injected faults found, blamed on the right thing, and nothing else flagged?

A finding is a *true alarm* of a fault if

1. its interval overlaps the fault's window, widened by one median true step of the affected
   jobs at either end, and
2. it is about an affected job (its found job stands for one), or it names the culprit, or
   mentions it in its evidence (:mod:`prism_sim.score.culprits`).

A finding without times is never one. Affected are the fault's ``job`` and ``jobs``. A fault
is *detected* if it has a true alarm; *recall* = detected / injected; *precision* = findings
that are a true alarm of some fault / findings; the rest are false alarms, told per 1,000
job-steps (true steps summed over jobs).

Of a fault's true alarms the *top* one has the highest confidence (ties: the earliest). From
it follow *localized_top1*, the fraction of injected faults whose top alarm names the true
culprit; *cause_accuracy*, the fraction of detected faults whose top alarm gives a cause that
:data:`CAUSES` accepts for the fault; and *steps_to_detect*, the mean number of steps of the
affected job from the first step hit to the first one flagged, not below 0. The first step
flagged is the one at the middle of the finding, or half a median step after its start if
that is earlier. A method whose findings only ever name symptoms (no cause that any fault
has) is not asked for causes: ``cause_accuracy`` is then ``None``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from prism_sim.score.culprits import culprit_of, mentioned, names_of
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case, Flags
from prism_sim.score.stats import mean, ratio

_COMPUTE = frozenset({"slow_gpu", "slow_rank", "slow_compute"})
_LINK = frozenset({"slow_nic", "slow_host_link", "slow_link"})  # one thing, to a flow record

CAUSES: dict[str, frozenset[str]] = {
    "slow_gpu": _COMPUTE,
    "slow_rank": _COMPUTE,
    "slow_nic": _LINK,
    "slow_host_link": _LINK,
    "slow_link": _LINK,
    "slow_switch": frozenset({"slow_switch"}),
}
"""Causes of a finding that are right for a kind of fault; any other kind: its own name."""


def score_faults(case: Case) -> dict[str, Any]:
    """All figures, ``by_kind`` the same for each kind of fault, and ``matches`` fault by fault.

    ``true_findings`` are the numbers of the findings that are true alarms.
    """
    findings = case.diagnosis["findings"].reset_index(drop=True)
    findings = findings.assign(true_job=findings["job"].map(true_job_of(case)))
    asked = _names_causes(findings, case.truth["faults"])
    true_alarm = np.zeros(len(findings), bool)
    matches = []
    for number, fault in case.truth["faults"].reset_index(drop=True).iterrows():
        alarms = _alarms_of(case, fault, findings)
        true_alarm |= alarms
        matches.append({"fault": number} | _match(case, fault, findings[alarms], asked=asked))
    table = pd.DataFrame(matches, columns=[*_COLUMNS])
    false = int((~true_alarm).sum())
    job_steps = len(case.truth["steps"][["job", "step"]].drop_duplicates())
    return {
        **_figures(table, asked=asked),
        "findings": len(findings),
        "true_alarms": int(true_alarm.sum()),
        "false_alarms": false,
        "precision": mean(true_alarm),
        "false_alarms_per_1000_job_steps": ratio(1000 * false, job_steps),
        "true_findings": [int(n) for n in findings.loc[true_alarm, "finding"]],
        "by_kind": {str(kind): _figures(part, asked=asked) for kind, part in table.groupby("kind")},
        "matches": matches,
    }


_COLUMNS = (
    "fault",
    "kind",
    "culprit_kind",
    "culprit",
    "jobs",
    "start_ns",
    "end_ns",
    "alarms",
    "detected",
    "localized",
    "cause_right",
    "steps_to_detect",
    "finding",
)


def affected_jobs(fault: pd.Series) -> list[str]:
    """True jobs that the fault slows down: ``job`` first, then those of ``jobs``."""
    named = [str(fault["job"])] if pd.notna(fault["job"]) else []
    others = json.loads(fault["jobs"]) if pd.notna(fault["jobs"]) else []
    return list(dict.fromkeys([*named, *map(str, others)]))


def _alarms_of(case: Case, fault: pd.Series, findings: pd.DataFrame) -> Flags:
    jobs = affected_jobs(fault)
    names = names_of(case, culprit_of(fault, case.truth["ranks"]))
    margin = _median_step(case, jobs)
    start, end = _window(fault)
    near = (findings["start_ns"] < end + margin) & (findings["end_ns"] > start - margin)
    blamed = findings["culprit"].isin(names) | findings["true_job"].isin(jobs)
    told = findings["evidence"].map(lambda text: bool(names & mentioned(text))).astype(bool)
    return np.asarray(near & (blamed | told), bool)


def _match(case: Case, fault: pd.Series, alarms: pd.DataFrame, *, asked: bool) -> dict[str, Any]:
    """What became of one fault, judged by its top alarm."""
    culprit = culprit_of(fault, case.truth["ranks"])
    start, end = _window(fault)
    told: dict[str, Any] = {
        "kind": str(fault["kind"]),
        "culprit_kind": culprit[0] if culprit else None,
        "culprit": culprit[1] if culprit else None,
        "jobs": affected_jobs(fault),
        "start_ns": int(start) if np.isfinite(start) else None,
        "end_ns": int(end) if np.isfinite(end) else None,
        "alarms": len(alarms),
        "detected": bool(len(alarms)),
        "localized": False,
        "cause_right": None,
        "steps_to_detect": None,
        "finding": None,
    }
    if not len(alarms):
        return told
    order = {"confidence": False, "start_ns": True, "finding": True}
    top = alarms.sort_values([*order], ascending=[*order.values()]).iloc[0]
    told["finding"] = int(top["finding"])
    told["localized"] = top["culprit"] in names_of(case, culprit)
    told["cause_right"] = bool(top["cause"] in _causes(told["kind"])) if asked else None
    told["steps_to_detect"] = _delay(case, fault, top)
    return told


def _figures(table: pd.DataFrame, *, asked: bool) -> dict[str, Any]:
    found = table[table["detected"].astype(bool)]
    delays = found["steps_to_detect"].dropna().to_numpy(float)
    return {
        "injected": len(table),
        "detected": len(found),
        "recall": ratio(len(found), len(table)),
        "localized_top1": mean(table["localized"].to_numpy(bool)),
        "cause_accuracy": mean(found["cause_right"].to_numpy(bool)) if asked else None,
        "steps_to_detect": mean(delays),
    }


def _delay(case: Case, fault: pd.Series, finding: pd.Series) -> int | None:
    """Steps of the affected job from the first one hit to the first one flagged."""
    jobs = affected_jobs(fault)
    job = finding["true_job"] if finding["true_job"] in jobs else next(iter(jobs), None)
    steps = case.truth["steps"]
    steps = steps[steps["job"] == job]
    if not len(steps):
        return None
    borders = steps.groupby("step").agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    given = pd.notna(fault["from_step"]) and job == fault["job"]
    start = _window(fault)[0]
    onset = int(fault["from_step"]) if given else _step_at(borders, start)
    half = _median_step(case, [str(job)]) / 2
    middle = min((finding["start_ns"] + finding["end_ns"]) / 2, finding["start_ns"] + half)
    return max(0, _step_at(borders, middle) - onset)


def _step_at(borders: pd.DataFrame, time: float) -> int:
    """The step that lasts at ``time``, or the next one if none does, or the last."""
    place = int(np.searchsorted(borders["end_ns"].to_numpy(), time, "right"))
    return int(borders.index[min(place, len(borders) - 1)])


def _window(fault: pd.Series) -> tuple[float, float]:
    start, end = fault["start_ns"], fault["end_ns"]
    return (-np.inf if pd.isna(start) else start, np.inf if pd.isna(end) else end)


def _median_step(case: Case, jobs: list[str]) -> float:
    """Median true step duration [ns] of ``jobs``, or of all where none is named."""
    steps = case.truth["steps"]
    steps = steps[steps["job"].isin(jobs)] if jobs else steps
    return float((steps["end_ns"] - steps["start_ns"]).median()) if len(steps) else 0.0


def _causes(kind: str) -> frozenset[str]:
    return CAUSES.get(kind, frozenset({kind}))


def _names_causes(findings: pd.DataFrame, faults: pd.DataFrame) -> bool:
    known = frozenset().union(*map(_causes, [*CAUSES, *faults["kind"].astype(str)]))
    return bool(findings["cause"].isin(known).any())
