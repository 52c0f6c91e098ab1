"""A diagnosis: its tables, what became of the input, and how both are shown and saved."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from llmprism.errors import Problem, UserError
from llmprism.io.flows import Intake
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.writing import replacing, write_table
from llmprism.model import UNKNOWN
from llmprism.version import __version__


@dataclass(frozen=True)
class Diagnosis:
    """The tables of :data:`llmprism.io.tables.DIAGNOSIS`, and what became of the records.

    Attributes
    ----------
    method : name of the method.
    jobs, layouts, pairs, groups, steps, spans, findings : the tables, with at least the
        contracted columns.
    intake : how many records were read, and how many set aside for which reason.
    """

    method: str
    jobs: pd.DataFrame
    layouts: pd.DataFrame
    pairs: pd.DataFrame
    groups: pd.DataFrame
    steps: pd.DataFrame
    spans: pd.DataFrame
    findings: pd.DataFrame
    intake: Intake

    def write(self, folder: Path | str) -> None:
        """Write every table as ``<folder>/<table>.parquet``, and ``<folder>/intake.json``."""
        folder = Path(folder)
        for name, schema in DIAGNOSIS.items():
            table = getattr(self, name)
            write_table(table, folder / f"{name}.parquet", _with_extra_columns(table, schema))
        note = {"method": self.method, "version": __version__, **self.intake.as_dict()}
        with replacing(folder / "intake.json") as partial:
            partial.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")

    def summary(self) -> dict[str, Any]:
        """Return the result in short, in a form that JSON can hold. Times are in seconds."""
        return {
            "method": self.method,
            "intake": self.intake.as_dict(),
            "jobs": [self._job(job) for job in sorted(self.jobs["job"].unique(), key=_natural)],
            "findings": [
                {**row, "evidence": json.loads(row["evidence"])}
                for row in self.findings[DIAGNOSIS["findings"].names].to_dict("records")
            ],
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the jobs and the findings."""
        columns = ["symptom", "cause", "job", "culprit_kind", "culprit", "confidence"]
        return (
            f"<p>Diagnosis by method {html.escape(self.method)} of "
            f"{self.intake.kept:,} of {self.intake.rows:,} flow records</p>"
            f"{pd.DataFrame(self.summary()['jobs']).to_html(index=False)}"
            f"{self.findings[columns].to_html(index=False)}"
        )

    def _job(self, job: str) -> dict[str, Any]:
        own = {}
        for name in DIAGNOSIS:
            table = getattr(self, name)
            own[name] = table[table["job"] == job]
        duration = (own["steps"]["end_ns"] - own["steps"]["start_ns"]) / 1e9
        groups = own["groups"].groupby("kind")["group"].nunique()
        return {
            "job": job,
            "addresses": len(own["jobs"]),
            "pairs": own["pairs"]["kind"].value_counts().to_dict(),
            "groups": groups.to_dict(),
            "steps": int(own["steps"]["step"].max() + 1) if len(duration) else 0,
            "step_median_s": float(duration.median()) if len(duration) else None,
            "findings": len(own["findings"]),
        }


def conform(method: str, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return all tables of a diagnosis from what a method returned.

    An absent table is empty. A table of findings without ``symptom`` or ``cause`` gets them:
    the one stands for the other as a symptom, and an absent cause is unknown.

    Raises
    ------
    UserError : for every contracted column that a table of the method lacks.
    """
    found: dict[str, pd.DataFrame] = {}
    problems = []
    for name, schema in DIAGNOSIS.items():
        table = tables.get(name)
        if table is None:
            table = schema.empty_table().to_pandas()
        if name == "findings":
            table = _with_symptom_and_cause(table)
        absent = [column for column in schema.names if column not in table.columns]
        if absent:
            what = f"the method's table {name!r} lacks the columns {', '.join(absent)}"
            problems.append(Problem(what, f"method {method!r}", "see llmprism.io.tables"))
            continue
        extra = [column for column in table.columns if column not in schema.names]
        found[name] = table[[*schema.names, *extra]]
    if problems:
        raise UserError(problems)
    return found


def _with_symptom_and_cause(findings: pd.DataFrame) -> pd.DataFrame:
    if "cause" not in findings.columns:
        findings = findings.assign(cause=UNKNOWN)
    if "symptom" not in findings.columns:
        findings = findings.assign(symptom=findings["cause"])
    return findings


def _with_extra_columns(table: pd.DataFrame, schema: pa.Schema) -> pa.Schema:
    """Return the contracted schema with a field for every further column."""
    extra = [column for column in table.columns if column not in schema.names]
    if not extra:
        return schema
    found = pa.Schema.from_pandas(table[extra], preserve_index=False)
    return pa.schema([*schema, *found])


def _natural(name: str) -> tuple[int, str]:
    return len(name), name  # job-2 before job-10
