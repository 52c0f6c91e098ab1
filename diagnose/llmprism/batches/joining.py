"""The diagnoses of all batches as one.

Jobs are numbered again, in the order in which their steps begin. The spans of every batch wait in a
file, as there are more spans than records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Intake
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.verdict import RecordsVerdict

_JOB = re.compile(r"\bjob-\d+\b")
_ABOUT_JOBS = ("culprit", "evidence")  # columns of findings whose text may name other jobs
_LAST = 2**63 - 1

Names = Mapping[str, str]
"""The new name of each job of a batch, by its old one."""


@dataclass(frozen=True)
class StoredSpans:
    """Makes the table of spans from files, one for each batch.

    Attributes
    ----------
    folder : of the files; it is removed when nothing needs it any more.
    files : with the names of the jobs in each.
    categories : of the columns that are text.
    """

    folder: TemporaryDirectory[str]
    files: Sequence[tuple[Path, Names]]
    categories: Mapping[str, list[str]]

    def __call__(self) -> Iterator[pd.DataFrame]:
        """Read the files in order, each row group as a part."""
        for path, names in self.files:
            with pq.ParquetFile(path, read_dictionary=list(self.categories)) as file:
                for group in range(max(file.num_row_groups, 1)):
                    yield self._part(file.read_row_group(group).to_pandas(), names)

    def _part(self, table: pd.DataFrame, names: Names) -> pd.DataFrame:
        table = table.assign(job=_renamed(table["job"], names))
        for name, every in self.categories.items():
            table[name] = table[name].astype(pd.CategoricalDtype(every))
        return table


def joined(
    diagnoses: Sequence[Diagnosis], spans: Sequence[Path], folder: TemporaryDirectory[str]
) -> Diagnosis:
    """One diagnosis of all batches; ``spans`` are the files of their spans, in ``folder``."""
    names = _new_names(diagnoses)
    tables = {
        name: _table(name, [getattr(one, name) for one in diagnoses], names)
        for name in DIAGNOSIS
        if name != "spans"
    }
    categories = {
        "job": sorted(new for own in names for new in own.values()),
        "address": sorted({*tables["jobs"]["address"]}),
    }
    stored = StoredSpans(folder, list(zip(spans, names, strict=True)), categories)
    return Diagnosis(
        method=diagnoses[0].method,
        intake=_intake([one.intake for one in diagnoses]),
        verdict=_verdict([one.verdict for one in diagnoses], names),
        spans_in_parts=InParts(stored),
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
    own = [_with_new_names(table, new) for table, new in zip(tables, names, strict=True)]
    filled = [table for table in own if len(table)] or own[:1]
    every = pd.concat(filled, ignore_index=True)
    if name != "findings":
        return every
    every = every.sort_values(["start_ns", "job", "culprit"], kind="stable", ignore_index=True)
    return every.assign(finding=range(len(every)))


def _with_new_names(table: pd.DataFrame, names: Names) -> pd.DataFrame:
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


def _intake(every: Sequence[Intake]) -> Intake:
    """The counts of all batches; those of unknown addresses are all in one of them."""
    set_aside: Counter[str] = Counter()
    unknown: dict[str, int] = {}
    for one in every:
        set_aside.update(one.set_aside)
        unknown |= one.unknown_addresses
    return Intake(
        rows=sum(one.rows for one in every),
        kept=sum(one.kept for one in every),
        set_aside=dict(set_aside),
        unknown_addresses=unknown,
        unknown_address_count=max(one.unknown_address_count for one in every),
        repeated=sum(one.repeated for one in every),
    )


def _verdict(every: Sequence[RecordsVerdict], names: Sequence[Names]) -> RecordsVerdict:
    """The verdict on all records: what one batch lacks as a whole matters if all lack it."""
    can_tell = any(one.can_tell for one in every)
    reasons = {}
    jobs: list[dict[str, Any]] = []
    for one, new in zip(every, names, strict=True):
        for reason in one.reasons:
            if reason.job is not None:
                reason = replace(reason, job=_new(reason.job, new))
            elif can_tell:
                continue
            reasons[reason.reason, reason.job] = reason
        jobs += [{**job, "job": _new(job["job"], new)} for job in one.figures.get("jobs", [])]
    figures = {
        "rows": sum(one.figures["rows"] for one in every),
        "kept": sum(one.figures["kept"] for one in every),
        "clock_tick_ns": max(one.figures["clock_tick_ns"] for one in every),
        "jobs": jobs,
    }
    return RecordsVerdict(can_tell, tuple(reasons.values()), figures)
