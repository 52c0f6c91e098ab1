"""A diagnosis: its tables, its counts of records, and how both are shown and saved."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pandas as pd

from llmprism.calibration import MODEL, calibrated
from llmprism.conclusion import Conclusion, conclude
from llmprism.io.flows import Intake
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import ScheduledJob, Topology
from llmprism.io.writing import write_table
from llmprism.job_names import matched
from llmprism.model import UNKNOWN
from llmprism.part_names import Parts, natural
from llmprism.sentences import FindingText, JobFacts, facts_of, finding_text, name_of
from llmprism.slow_steps import SlowSteps, least_shown, slow_steps
from llmprism.verdict import RecordsVerdict
from prism_common.errors import Problem, UserError
from prism_common.files import json_object, write_json
from prism_common.folders import Names, OwnFolder, replacing_folder
from prism_common.version import __version__

_MARK = "intake.json"  # shows that a folder is a diagnosis of ours
_OTHER_FOLDER = "name another folder"
_NAMES = Names(r"intake\.json", *(rf"{name}\.parquet" for name in DIAGNOSIS))
_LAYOUT = tuple(name for name in DIAGNOSIS["layouts"].names if name not in ("job", "evidence"))


@dataclass(frozen=True)
class Diagnosis:
    """The tables of :data:`llmprism.io.tables.DIAGNOSIS`, and the counts of records.

    Attributes
    ----------
    method : name of the method.
    jobs, layouts, pairs, groups, steps, findings : the tables, with at least the contracted
        columns.
    spans_in_parts : the table ``spans``. It is larger than the records, and so is written part by
        part.
    intake : numbers of records read, and set aside, by reason.
    verdict : whether these records suffice for a diagnosis, and the reasons if not.
    left_out : names of tables that the method does not fill; they are empty, and no answers.
    """

    method: str
    jobs: pd.DataFrame
    layouts: pd.DataFrame
    pairs: pd.DataFrame
    groups: pd.DataFrame
    steps: pd.DataFrame
    spans_in_parts: InParts
    findings: pd.DataFrame
    intake: Intake
    verdict: RecordsVerdict = field(default_factory=RecordsVerdict)
    left_out: tuple[str, ...] = ()

    @cached_property
    def spans(self) -> pd.DataFrame:
        """The whole table ``spans``; its names are categories."""
        return self.spans_in_parts.frame()

    @cached_property
    def slow_steps(self) -> list[SlowSteps]:
        """Steps that are clearly slow without a finding, of the jobs that can be diagnosed."""
        found = slow_steps(self.steps, self.findings)
        return [one for one in found if not self.verdict.doubted(one.job)]

    @cached_property
    def conclusion(self) -> Conclusion:
        """What else is slow, what was compared, and what was not."""
        reasons = len(self.verdict.reasons)
        least = least_shown(self.steps)
        found = len(self.findings)
        return conclude(self.verdict.scopes, self.slow_steps, found, reasons, least, self.left_out)

    def with_names(self, scheduled: Sequence[ScheduledJob]) -> Diagnosis:
        """Return the same diagnosis, with the column ``name`` in the table of jobs."""
        names = matched(self.jobs, self.steps, scheduled)
        return replace(self, jobs=self.jobs.assign(name=self.jobs["job"].map(names)))

    def without_spans(self) -> Diagnosis:
        """Return the same diagnosis with no spans, and so without what they are made of."""
        return replace(
            self, spans_in_parts=InParts.of(DIAGNOSIS["spans"].empty_table().to_pandas())
        )

    def write(self, folder: Path | str) -> None:
        """Write every table as ``<folder>/<table>.parquet``, and ``<folder>/intake.json``.

        An older diagnosis in ``folder`` is replaced as a whole, or not at all.

        Raises
        ------
        UserError : ``folder`` contains other files, or cannot be written.
        """
        check_target(folder)
        try:
            with replacing_folder(Path(folder)) as fresh:
                self.write_files(fresh)
        except OSError as error:
            raise UserError(_unwritable(folder, error)) from error

    def write_files(self, folder: Path) -> None:
        """Write the same files into ``folder``, next to its other files."""
        for name, schema in DIAGNOSIS.items():
            table = self.spans_in_parts if name == "spans" else getattr(self, name)
            write_table(table, folder / f"{name}.parquet", schema, further=True)
        note = {"method": self.method, "version": __version__, **self.intake.as_dict()}
        note |= {"verdict": self.verdict.as_dict(), "left_out": list(self.left_out)}
        write_json(folder / _MARK, note)

    def summary(self) -> dict[str, Any]:
        """Return a short result in a form that JSON can represent. Times are in seconds."""
        return {
            "method": self.method,
            "intake": self.intake.as_dict(),
            "verdict": self.verdict.as_dict(),
            "conclusion": self.conclusion.lines() if self.verdict.can_tell else [],
            "slow_steps": [asdict(one) for one in self.slow_steps],
            "jobs": [self._job(job) for job in sorted(self.jobs["job"].unique(), key=natural)],
            "findings": [
                {**row, "evidence": json.loads(row["evidence"])}
                for row in self.findings[DIAGNOSIS["findings"].names].to_dict("records")
            ],
        }

    def sentences(self, topology: Mapping[str, Any]) -> list[str]:
        """Return each finding in words; ``topology`` is the content of ``topology.json``."""
        return [finding.short for finding in self.texts(topology)]

    def texts(self, topology: Mapping[str, Any]) -> list[FindingText]:
        """Return each finding as sentences, also what to do next."""
        parts = Parts.of(topology)
        facts = facts_of(self.jobs, self.steps, parts, self.layouts)
        return [
            finding_text(cast(dict[str, Any], row), parts, facts.get(row["job"], JobFacts()))
            for row in self.findings.to_dict("records")
        ]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the jobs and the findings."""
        columns = ["symptom", "cause", "job", "culprit_kind", "culprit", "confidence"]
        return (
            f"<p>Diagnosis by method {html.escape(self.method)} of "
            f"{self.intake.kept:,} of {self.intake.rows:,} flow records</p>"
            f"{''.join(f'<p>{html.escape(line)}</p>' for line in self.verdict.lines())}"
            f"{pd.DataFrame(self.summary()['jobs']).to_html(index=False)}"
            f"{self.findings[columns].to_html(index=False)}"
        )

    def _job(self, job: str) -> dict[str, Any]:
        own = {}
        for name in ("jobs", "pairs", "groups", "steps", "findings"):
            table = getattr(self, name)
            own[name] = table[table["job"] == job]
        duration = (own["steps"]["end_ns"] - own["steps"]["start_ns"]) / 1e9
        groups = own["groups"].groupby("kind")["group"].nunique()
        layouts = self.layouts[self.layouts["job"] == job].to_dict("records")
        return {
            "job": job,
            "name": name_of(own["jobs"]),
            "addresses": len(own["jobs"]),
            "servers": sorted(_servers(own["jobs"]), key=natural),
            "pairs": own["pairs"]["kind"].value_counts().to_dict(),
            "groups": groups.to_dict(),
            "layout": {key: layouts[0][key] for key in _LAYOUT} if layouts else {},
            "steps": int(own["steps"]["step"].max() + 1) if len(duration) else 0,
            "step_median_s": float(duration.median()) if len(duration) else None,
            "findings": len(own["findings"]),
        }


def _servers(jobs: pd.DataFrame) -> set[str]:
    """The servers of the rows of the table ``jobs``; none if a method was run without them."""
    return {str(one) for one in jobs["server"].dropna()} if "server" in jobs else set()


def check_target(folder: Path | str) -> None:
    """Refuse a folder in which anything but an older diagnosis would be replaced.

    Raises
    ------
    UserError : ``folder`` is a file, or a folder with files that no diagnosis writes, or
        without the ``intake.json`` of a diagnosis.
    """
    where = str(folder)
    if not where or "\0" in where:
        raise UserError(Problem(f"{where!r} names no folder", "", _OTHER_FOLDER))
    path = Path(folder)
    try:
        if not path.exists():
            above = next(one for one in path.absolute().parents if one.exists())
            if not above.is_dir():
                what = f"{above} is a file, and must be a folder"
                raise UserError(Problem(what, where, _OTHER_FOLDER))
            return
        if not path.is_dir():
            raise UserError(Problem("this is a file, and must be a folder", where))
        own = OwnFolder(path, _NAMES, _OTHER_FOLDER)
        own.refuse_foreign()
        is_empty = not any(path.iterdir())
    except (OSError, ValueError) as error:
        raise UserError(_unwritable(folder, error)) from error
    if not is_empty and not _is_mark(path / _MARK):
        what = f"holds no {_MARK} of an older diagnosis, so it is not replaced"
        raise UserError(Problem(what, where, _OTHER_FOLDER))


def _is_mark(path: Path) -> bool:
    return {"method", "version", "rows", "kept"} <= json_object(path).keys()


def _unwritable(folder: Path | str, error: OSError | ValueError) -> Problem:
    reason = getattr(error, "strerror", None) or (str(error).splitlines() or ["unknown"])[0]
    return Problem(f"cannot write the diagnosis: {reason}", str(folder), _OTHER_FOLDER)


def conform(
    method: str, tables: Mapping[str, pd.DataFrame | InParts]
) -> tuple[dict[str, pd.DataFrame], InParts]:
    """Return all tables of a diagnosis from what a method returned; the spans in parts.

    An absent table is empty. A table of findings without ``symptom`` or ``cause`` gets them:
    for a missing symptom, the cause is the symptom; a missing cause is ``unknown``. Only spans
    may be in parts, which must have the contracted columns.

    Raises
    ------
    UserError : for every contracted column that a table of the method lacks.
    """
    found: dict[str, pd.DataFrame] = {}
    problems = []
    for name, schema in DIAGNOSIS.items():
        table = tables.get(name)
        if isinstance(table, InParts):
            continue
        if table is None:
            table = schema.empty_table().to_pandas()
        if name == "findings":
            table = _with_symptom_and_cause(table)
            table = table if MODEL in table.columns else calibrated(table, method)
        absent = [column for column in schema.names if column not in table.columns]
        if absent:
            what = f"the method's table {name!r} lacks the columns {', '.join(absent)}"
            how = f"it needs {', '.join(schema.names)}"
            problems.append(Problem(what, f"method {method!r}", how))
            continue
        extra = [column for column in table.columns if column not in schema.names]
        found[name] = table[[*schema.names, *extra]]
    if problems:
        raise UserError(problems)
    spans = tables.get("spans")
    return found, spans if isinstance(spans, InParts) else InParts.of(found.pop("spans"))


def with_servers(
    tables: Mapping[str, pd.DataFrame | InParts], topology: Topology
) -> dict[str, pd.DataFrame | InParts]:
    """``tables``, where ``jobs`` has the server of each address."""
    jobs = tables.get("jobs")
    if not isinstance(jobs, pd.DataFrame) or "address" not in jobs.columns:
        return dict(tables)
    server = {end.address: end.server for end in topology.endpoints}
    return {**tables, "jobs": jobs.assign(server=jobs["address"].map(server))}


def _with_symptom_and_cause(findings: pd.DataFrame) -> pd.DataFrame:
    if "cause" not in findings.columns:
        findings = findings.assign(cause=UNKNOWN)
    if "symptom" not in findings.columns:
        findings = findings.assign(symptom=findings["cause"])
    return findings
