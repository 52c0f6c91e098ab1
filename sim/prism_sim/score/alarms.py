"""Which finding is about which fault, and which is right.

A finding is an *alarm* of a fault if its interval overlaps the fault's window, widened by one
median true step of the affected jobs on both sides, and it concerns an affected job (by the true
job that its found job matches), names the culprit, or mentions it in its evidence
(:mod:`prism_sim.score.culprits`). A finding without times is never one.

Each finding gets one mark:

- *right*: an alarm that names the culprit, with most of its time in the widened window;
- *hiccup*: it is about one step, and in that step the work of the server that it names took longer
  by chance (the truth table ``hiccups``);
- *vague*: an alarm that names neither a part, or a set of parts, nor a cause: the job is slow;
- *wrong*: any other, so also a further finding in the window of a fault that names another part.

Hiccups and vague findings count neither way. A vague one still detects its fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from llmprism.finding_fields import evidence_of, names_in
from prism_sim.faults import KINDS
from prism_sim.score.culprits import Names, culprit_of, devices_of, mentioned, names_of
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case, Flags

Mark = Literal["right", "hiccup", "vague", "wrong"]

SHARED = 1 / 3
"""Part of the shorter one that a step and a finding share if the finding is about that step."""


@dataclass(frozen=True)
class Alarms:
    """Findings and faults of one case.

    Attributes
    ----------
    findings : the table, with the column ``true_job``: the job that the found one matches.
    near : whether the windows of a fault and a finding overlap, shape (faults, findings).
    timely : whether most of the time of a finding is in the window of a fault, same shape.
    of : whether a finding is an alarm of a fault, same shape. One that is right for a fault is none
        of a fault whose culprit it does not name.
    right : whether a finding is right for a fault, same shape.
    marks : the mark of each finding.
    """

    findings: pd.DataFrame
    near: Flags
    timely: Flags
    of: Flags
    right: Flags
    marks: tuple[Mark, ...]


def alarms_of(case: Case) -> Alarms:
    """The alarms of every fault of ``case``, and the mark of every finding."""
    findings = case.diagnosis["findings"].reset_index(drop=True)
    findings = findings.assign(true_job=findings["job"].map(true_job_of(case)))
    faults = [fault for _, fault in case.truth["faults"].iterrows()]
    shape = (len(faults), len(findings))
    near, timely, about, named = (
        np.array(rows, bool).reshape(shape) for rows in _flags(case, faults, findings)
    )
    right = timely & named
    others = np.any(right, axis=0) & ~right & ~(near & named)
    hiccups = _hiccups(case, findings) & ~np.any(right, axis=0)
    of = near & (about | named) & ~others & ~hiccups
    vague = _is_vague(case, findings)
    marks = [_mark(*flags) for flags in zip(right.any(0), hiccups, vague & of.any(0), strict=True)]
    return Alarms(findings, near, timely, of, right, tuple(marks))


def affected_jobs(fault: pd.Series) -> list[str]:
    """True jobs that the fault slows down: ``job`` first, then those of ``jobs``."""
    named = [str(fault["job"])] if pd.notna(fault["job"]) else []
    others = json.loads(fault["jobs"]) if pd.notna(fault["jobs"]) else []
    return list(dict.fromkeys([*named, *map(str, others)]))


def right_names(case: Case, fault: pd.Series) -> Names:
    """Every name of the culprit of ``fault`` that a finding may give."""
    kind = KINDS.get(str(fault["kind"]))
    of_gpu = kind is not None and pd.notna(fault["rank"]) and not kind.is_of_access()
    return names_of(case, culprit_of(fault, case.truth["ranks"]), lock_step=of_gpu)


def window_of(fault: pd.Series) -> tuple[float, float]:
    """Start and end of a fault [ns]; infinite where the truth gives none."""
    start, end = fault["start_ns"], fault["end_ns"]
    return (-np.inf if pd.isna(start) else start, np.inf if pd.isna(end) else end)


def median_step(case: Case, jobs: list[str]) -> float:
    """Median true step duration [ns] of ``jobs``, or of all if none is named."""
    steps = case.truth["steps"]
    steps = steps[steps["job"].isin(jobs)] if jobs else steps
    return float((steps["end_ns"] - steps["start_ns"]).median()) if len(steps) else 0.0


def _mark(right: bool, hiccup: bool, vague: bool) -> Mark:
    return "right" if right else "hiccup" if hiccup else "vague" if vague else "wrong"


def _flags(case: Case, faults: Sequence[pd.Series], findings: pd.DataFrame) -> Any:
    """Lists of flags, one for each fault: near, timely, about an affected job, named."""
    each = [_flags_of(case, fault, findings) for fault in faults]
    return zip(*each, strict=True) if each else ([], [], [], [])


def _flags_of(
    case: Case, fault: pd.Series, findings: pd.DataFrame
) -> tuple[Flags, Flags, Flags, Flags]:
    jobs, names = affected_jobs(fault), right_names(case, fault)
    margin = median_step(case, jobs)
    start, end = window_of(fault)
    first, last = findings["start_ns"].to_numpy(float), findings["end_ns"].to_numpy(float)
    near = (first < end + margin) & (last > start - margin)
    shared = np.minimum(last, end + margin) - np.maximum(first, start - margin)
    timely = near & ((2 * shared > last - first) | (last <= first))
    mentions = findings["evidence"].map(lambda text: bool(names & mentioned(text))).astype(bool)
    about = (findings["true_job"].isin(jobs) | mentions).to_numpy(bool)
    return near, timely, about, findings["culprit"].isin(names).to_numpy(bool)


def _is_vague(case: Case, findings: pd.DataFrame) -> Flags:
    """Whether a finding says no more than that its job is slow."""
    whole = {*case.truth["ranks"]["job"].astype(str), *findings["job"].dropna().astype(str)}
    culprits, causes = findings["culprit"], known_causes(case.truth["faults"]["kind"].astype(str))
    no_part = culprits.isna() | culprits.isin({"", *whole})
    rows = zip(culprits, findings["culprit_kind"], findings["evidence"], strict=True)
    names = ("culprit", "culprit_kind", "evidence")
    sets = [bool(named_set(dict(zip(names, row, strict=True))) - {"", *whole}) for row in rows]
    return np.asarray(no_part & ~findings["cause"].isin(causes) & ~np.array(sets, bool), bool)


def named_set(finding: Mapping[str, Any]) -> set[str]:
    """Every part that a finding names as a possible culprit: the first one, and its ``one_of``.

    A job is no such part beside parts of it.
    """
    first, others = finding["culprit"], {*names_in(evidence_of(finding).get("one_of"))}
    alone = isinstance(first, str) and not (others and finding["culprit_kind"] == "job")
    return others | ({first} if alone else set())


def causes_of(kind: str) -> Names:
    """Right causes of a finding for a ``kind`` of fault: its name, and those that it declares.

    A kind of a foreign capture that is a cause of a registered kind has the causes of that kind.
    """
    declared = (known.causes for name, known in KINDS.items() if kind in (name, *known.causes))
    own = KINDS[kind].causes if kind in KINDS else next(declared, frozenset())
    return own | {kind}


def known_causes(kinds: Iterable[str]) -> Names:
    """Every cause that a finding may give, with those of further ``kinds`` of faults."""
    return frozenset[str]().union(*map(causes_of, [*KINDS, *kinds]))


def _hiccups(case: Case, findings: pd.DataFrame) -> Flags:
    """Whether a finding names, in one step, a server whose work took longer there by chance."""
    hiccups = case.truth["hiccups"]
    if hiccups.empty or findings.empty:
        return np.zeros(len(findings), bool)
    ranks = case.truth["ranks"][["job", "rank", "server"]]
    at = hiccups.merge(ranks, on=["job", "rank"])[["job", "step", "server"]].drop_duplicates()
    steps = case.truth["steps"].groupby(["job", "step"]).agg({"start_ns": "min", "end_ns": "max"})
    places, steps = at.join(steps, on=["job", "step"], how="inner"), steps.reset_index()
    flags = [_is_hiccup(case, finding, steps, places) for _, finding in findings.iterrows()]
    return np.asarray(flags, dtype=np.bool_)


def _is_hiccup(case: Case, finding: pd.Series, steps: pd.DataFrame, places: pd.DataFrame) -> bool:
    """Whether a finding is about one step, and all that it names had a hiccup in that step.

    ``steps`` and ``places`` have the times of the steps of all jobs, and of those with hiccups.
    """
    jobs = [finding["true_job"]] if pd.notna(finding["true_job"]) else [*steps["job"].unique()]
    own, at = (frame[frame["job"].isin(jobs)] for frame in (steps, places))
    whole = _shared_ns(own, finding) > (own["end_ns"] - own["start_ns"]) / 2
    if int(whole.groupby(own["job"]).sum().max()) > 1:
        return False
    lasted_ns = np.minimum(at["end_ns"] - at["start_ns"], finding["end_ns"] - finding["start_ns"])
    there = {*at.loc[_shared_ns(at, finding) > SHARED * lasted_ns, "server"]}
    named = devices_of(case, finding["culprit"])
    return bool(named) and named <= there


def _shared_ns(steps: pd.DataFrame, finding: pd.Series) -> pd.Series:
    """The time that each step and a finding share [ns]; negative if they are apart."""
    last = steps["end_ns"].clip(upper=finding["end_ns"])
    return last - steps["start_ns"].clip(lower=finding["start_ns"])
