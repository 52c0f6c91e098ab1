"""From files to a diagnosis: read, diagnose by a named method, save.

>>> diagnosis = diagnose_files("flows.parquet", "topology.json")  # doctest: +SKIP
>>> diagnosis.steps.groupby("job")["step"].max()  # doctest: +SKIP
>>> diagnosis.write(Path("diagnosis"))  # doctest: +SKIP
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from llmprism import __version__, methods
from llmprism.errors import UserError
from llmprism.io.flows import FlowTable, Intake, load, place
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology, read_topology
from llmprism.io.writing import replacing, write_table
from llmprism.model import Progress

METHOD = "paper"
_READING = 0.2  # share of the time that reading the file takes


@dataclass(frozen=True)
class Diagnosis:
    """What was found: the tables of :data:`llmprism.io.tables.DIAGNOSIS`, and what was refused.

    Attributes
    ----------
    method : name of the method.
    jobs, pairs, groups, steps, spans, findings : the tables, with exactly those columns.
    intake : what happened to the records at the door.
    """

    method: str
    jobs: pd.DataFrame
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
            write_table(getattr(self, name), folder / f"{name}.parquet", schema)
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
                for row in self.findings.to_dict("records")
            ],
        }

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


def diagnose(
    flows: FlowTable,
    topology: Topology,
    method: str = METHOD,
    progress: Progress | None = None,
) -> Diagnosis:
    """Diagnose flows that are already in memory.

    Raises
    ------
    UserError : if there is no such method.
    """
    return _diagnose(flows, topology, Intake(len(flows), len(flows), {}, {}), method, progress)


def diagnose_files(
    flows_path: Path | str,
    topology_path: Path | str,
    method: str = METHOD,
    progress: Progress | None = None,
) -> Diagnosis:
    """Read ``flows.parquet`` and ``topology.json`` and diagnose them.

    Parameters
    ----------
    progress : called with the fraction done, in [0, 1], and what is being done.

    Raises
    ------
    UserError : if a file is not what it should be, or there is no such method.
    """
    methods.get(method)  # complain before the reading
    report = progress or _silent
    report(0.0, "reading flows")
    topology, table = _read_both(topology_path, flows_path)
    flows, intake = place(table, topology)

    def rest(fraction: float, doing: str) -> None:
        report(_READING + (1.0 - _READING) * fraction, doing)

    return _diagnose(flows, topology, intake, method, rest)


def _diagnose(
    flows: FlowTable,
    topology: Topology,
    intake: Intake,
    method: str,
    progress: Progress | None,
) -> Diagnosis:
    report = progress or _silent
    found = methods.get(method)(flows, topology, report)
    checked = {name: _conform(found.get(name), schema) for name, schema in DIAGNOSIS.items()}
    report(1.0, "done")
    return Diagnosis(method=method, intake=intake, **checked)


def _read_both(topology_path: Path | str, flows_path: Path | str) -> tuple[Topology, pa.Table]:
    """Read both files; what is wrong with one does not hide what is wrong with the other."""
    try:
        topology = read_topology(topology_path)
    except UserError as first:
        try:
            load(flows_path)
        except UserError as second:
            raise UserError([*first.problems, *second.problems]) from second
        raise
    return topology, load(flows_path)


def _conform(table: pd.DataFrame | None, schema: pa.Schema) -> pd.DataFrame:
    """Return the table's contracted columns; an absent table is empty."""
    if table is None:
        empty: pd.DataFrame = schema.empty_table().to_pandas()
        return empty
    known: pd.DataFrame = table[schema.names]
    return known


def _natural(name: str) -> tuple[int, str]:
    return len(name), name  # job-2 before job-10


def _silent(_fraction: float, _doing: str) -> None:
    pass
