"""From files to a diagnosis: read, diagnose by a named method, save.

>>> diagnosis = diagnose_files("flows.parquet", "topology.json")  # doctest: +SKIP
>>> diagnosis.steps.groupby("job")["step"].max()  # doctest: +SKIP
>>> diagnosis.write(Path("diagnosis"))  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from llmprism import methods
from llmprism.diagnosis import Diagnosis, conform
from llmprism.errors import UserError
from llmprism.io.flows import FlowTable, Intake, load, place
from llmprism.io.topology import Topology, read_topology
from llmprism.model import Progress

METHOD = "paper"
_READING = 0.2  # share of the time that reading the file takes


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
    tables = conform(method, found)
    report(1.0, "done")
    return Diagnosis(method=method, intake=intake, **tables)


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


def _silent(_fraction: float, _doing: str) -> None:
    pass
