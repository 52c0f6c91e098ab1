"""The diagnoses of all batches as one.

Jobs are numbered again, in the order in which their steps begin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from llmprism.batches.stored_spans import SpanFile, StoredSpans
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Intake
from llmprism.io.screening import REPEATED
from llmprism.io.tables import DIAGNOSIS
from llmprism.verdict import RecordsVerdict

_JOB = re.compile(r"\bjob-\d+\b")
_ABOUT_JOBS = ("culprit", "evidence")  # columns of findings whose text may name other jobs
_LAST = 2**63 - 1

Names = Mapping[str, str]
"""The new name of each job of a batch, by its old one."""


def joined(
    diagnoses: Sequence[Diagnosis],
    spans: Sequence[Sequence[SpanFile]],
    intake: Intake,
    folder: TemporaryDirectory[str],
) -> Diagnosis:
    """One diagnosis of all batches.

    ``spans`` are the files of the spans of each batch, in ``folder``; ``intake`` counts all
    records, but no repetitions.
    """
    names = _new_names(diagnoses)
    tables = {
        name: _table(name, [getattr(one, name) for one in diagnoses], names)
        for name in DIAGNOSIS
        if name != "spans"
    }
    files = [file.renamed(new) for own, new in zip(spans, names, strict=True) for file in own]
    addresses = sorted({*tables["jobs"]["address"]})
    intake = _with_repetitions(intake, [one.intake for one in diagnoses])
    return Diagnosis(
        method=diagnoses[0].method,
        left_out=diagnoses[0].left_out,
        intake=intake,
        verdict=_verdict([one.verdict for one in diagnoses], names, intake),
        spans_in_parts=StoredSpans(folder, files, addresses).in_parts(),
        **tables,
    )


def _new_names(diagnoses: Sequence[Diagnosis]) -> Sequence[Names]:
    """New names of the jobs of each batch: in the order of their steps, then those without any."""
    jobs = []
    for batch, one in enumerate(diagnoses):
        begins = one.steps.groupby("job")["start_ns"].min().to_dict()
        for number, job in enumerate(dict.fromkeys(one.jobs["job"])):
            jobs.append((begins.get(job, _LAST), batch, number, str(job)))
    names: list[dict[str, str]] = [{} for _ in diagnoses]
    for number, (_, batch, _, job) in enumerate(sorted(jobs)):
        names[batch][job] = f"job-{number}"
    return names


def _table(name: str, tables: Sequence[pd.DataFrame], names: Sequence[Names]) -> pd.DataFrame:
    """The table ``name`` of all batches."""
    own = [with_new_names(table, new) for table, new in zip(tables, names, strict=True)]
    filled = [table for table in own if len(table)] or own[:1]
    every = pd.concat(filled, ignore_index=True)
    if name != "findings":
        return every
    every = every.sort_values(["start_ns", "job", "culprit"], kind="stable", ignore_index=True)
    return every.assign(finding=range(len(every)))


def with_new_names(table: pd.DataFrame, names: Names) -> pd.DataFrame:
    """A table of a diagnosis with other names of jobs, also where a finding names them."""
    table = table.assign(job=_renamed(table["job"], names))
    for column in _ABOUT_JOBS:
        if column in table.columns and "finding" in table.columns:
            table[column] = [_JOB.sub(lambda old: _new(old[0], names), x) for x in table[column]]
    return table


def _renamed(jobs: pd.Series, names: Names) -> pd.Series:
    return jobs.map(lambda old: _new(old, names))


def _new(old: str, names: Names) -> str:
    """The new name of a job; what names no job, stays."""
    return names.get(old, old)


def _with_repetitions(intake: Intake, every: Sequence[Intake]) -> Intake:
    """``intake`` with the repetitions that were found in ``every`` part of its records."""
    surplus = sum(one.set_aside.get(REPEATED, 0) for one in every)
    set_aside = intake.set_aside | ({REPEATED: surplus} if surplus else {})
    repeated = sum(one.repeated for one in every)
    return replace(intake, kept=intake.kept - surplus, set_aside=set_aside, repeated=repeated)


def _verdict(
    every: Sequence[RecordsVerdict], names: Sequence[Names], intake: Intake
) -> RecordsVerdict:
    """The verdict on all records: what one batch lacks as a whole matters if all lack it."""
    can_tell = any(one.can_tell for one in every)
    reasons = {}
    jobs: list[dict[str, Any]] = []
    scopes = []
    for one, new in zip(every, names, strict=True):
        for reason in one.reasons:
            if reason.job is not None:
                reason = replace(reason, job=_new(reason.job, new))
            elif can_tell:
                continue
            reasons[reason.reason, reason.job] = reason
        scopes += [replace(scope, job=_new(scope.job, new)) for scope in one.scopes]
        jobs += [{**job, "job": _new(job["job"], new)} for job in one.figures.get("jobs", [])]
    figures = {
        "rows": intake.rows,
        "kept": intake.kept,
        "clock_tick_ns": max(one.figures["clock_tick_ns"] for one in every),
        "jobs": jobs,
    }
    return RecordsVerdict(can_tell, tuple(reasons.values()), figures, tuple(scopes))
