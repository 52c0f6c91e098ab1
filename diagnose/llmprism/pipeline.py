"""The steps from flow records to a diagnosis: read the input, run a named method.

>>> diagnosis = diagnose("flows.parquet", "topology.json")  # doctest: +SKIP
>>> diagnosis.steps.groupby("job")["step"].max()  # doctest: +SKIP
>>> diagnosis.write(Path("diagnosis"))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from llmprism import methods
from llmprism.batches import diagnose_in_batches
from llmprism.cluster import workers_at
from llmprism.defaults import METHOD, RECORDS_AT_ONCE
from llmprism.diagnosis import Diagnosis, conform, with_servers
from llmprism.io.flows import FlowTable, Intake, Rest, place
from llmprism.io.foreign import read_tables
from llmprism.io.loading import adopt, load, row_count
from llmprism.io.parts import InParts
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology, parse_topology, read_topology
from llmprism.isolation.runner import LIMITS, Limits, Usage, run_apart
from llmprism.numerics.memory import give_back
from llmprism.persistent_deviations import scopes_of
from llmprism.verdict import judge, without_servers
from prism_common.errors import Problem, UserError
from prism_common.files import resolved
from prism_common.progress import Progress, silent

_READING = 0.2  # share of the time that reading the file takes


def diagnose(
    flows: FlowTable | pd.DataFrame | pa.Table | Path | str,
    topology: Topology | Mapping[str, Any] | Path | str,
    method: str = METHOD,
    progress: Progress | None = None,
    records_at_once: int = RECORDS_AT_ONCE,
    limits: Limits = LIMITS,
    cluster: str | None = None,
    rest: Rest | None = None,
) -> Diagnosis:
    """Diagnose flow records, given as a file or in memory.

    Parameters
    ----------
    flows : a file (or a pipe, or ``-`` for standard input) of flow records, a data frame or
        Arrow table with the same columns, or a table that was read earlier.
    topology : a file, its content as a dictionary, or a topology that was read earlier.
    method : a name, or ``package.module:object``. A method of another package runs in a process
        of its own (:mod:`llmprism.isolation`).
    progress : called with the fraction done, in [0, 1], and a description of the present work.
    records_at_once : a Parquet file of more records is diagnosed in batches of jobs
        (:mod:`llmprism.batches`), unless the method is that of another package.
    limits : of a method that runs in a process of its own.
    cluster : the scheduler of a Dask cluster, whose workers diagnose the batches
        (:mod:`llmprism.cluster`).
    rest : what is known of records that are diagnosed apart.

    Raises
    ------
    UserError : a file or table is not valid, or the method does not exist, or (MethodError) it
        gave no tables; or the cluster does not answer.
    """
    methods.check(method)  # fail before the reading
    report = progress or silent
    report(0.0, "reading flows")
    if methods.is_foreign(method):
        _refuse(cluster, method)
        return diagnose_apart(flows, topology, method, report, limits)[0]
    with workers_at(cluster) as each:
        if isinstance(flows, Path | str) and row_count(flows) > records_at_once:
            network, joining = _network(topology), methods.joining(method)
            one = _OfBatch(method, network, rest)
            return diagnose_in_batches(flows, network, joining, records_at_once, one, report, each)
    return _diagnosed(method, *_taken_in(flows, topology, rest), report)


def _refuse(cluster: str | None, method: str) -> None:
    """Refuse a cluster for a method of another package."""
    if cluster is not None:
        what = f"the method {method!r} is of another package, and runs on this machine only"
        raise UserError(Problem(what, "--cluster", "leave --cluster out"))


@dataclass(frozen=True)
class _OfBatch:
    """Diagnoses the file of a batch, here or on a worker of a cluster."""

    method: str
    network: Topology
    apart: Rest | None = None

    def __call__(self, part: Path, rest: Rest, progress: Progress) -> Diagnosis:
        if self.apart is not None:
            rest = rest.beside(self.apart)
        records, intake = place(load(part), self.network, rest)
        return _diagnosed(self.method, records, self.network, intake, progress)


def diagnose_apart(
    flows: FlowTable | pd.DataFrame | pa.Table | Path | str,
    topology: Topology | Mapping[str, Any] | Path | str,
    method: str = METHOD,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> tuple[Diagnosis, Usage]:
    """Diagnose with any method in a process of its own; also returns its time and memory.

    Parameters as in :func:`diagnose`.

    Raises
    ------
    MethodError : the method gave no valid tables, with the reason.
    """
    records, network, intake = _taken_in(flows, topology)
    (progress or silent)(_READING, f"{method}, in a process of its own")
    tables, usage = run_apart(method, records, network, limits)
    return _judged(method, tables, records, network, intake), usage


def diagnosis_from_tables(
    folder: Path | str,
    flows: FlowTable | pd.DataFrame | pa.Table | Path | str,
    topology: Topology | Mapping[str, Any] | Path | str,
) -> Diagnosis:
    """The diagnosis with the tables in ``folder``, however they were made; the method is its name.

    Raises
    ------
    UserError : a table is not valid, or there is none.
    """
    records, network, intake = _taken_in(flows, topology)
    tables = read_tables(Path(folder), set(network.addresses))
    if not tables:
        expected = ", ".join(f"{name}.parquet" for name in DIAGNOSIS)
        raise UserError(Problem("there is no table of a diagnosis", str(folder), expected))
    return _judged(resolved(folder).name, tables, records, network, intake)


def empty_diagnosis(
    flows: FlowTable | pd.DataFrame | pa.Table | Path | str,
    topology: Topology | Mapping[str, Any] | Path | str,
    method: str,
) -> Diagnosis:
    """A diagnosis that finds nothing, in place of that of a method that failed."""
    records, network, intake = _taken_in(flows, topology)
    return _judged(method, {}, records, network, intake)


def _diagnosed(
    method: str, records: FlowTable, network: Topology, intake: Intake, report: Progress
) -> Diagnosis:
    """Run ``method`` on records that are in memory."""

    def rest(fraction: float, doing: str) -> None:
        report(_READING + (1.0 - _READING) * fraction, doing)

    give_back()
    result = methods.get(method)(records, network, rest)
    diagnosis = _judged(method, result, records, network, intake)
    report(1.0, "done")
    return diagnosis


def _judged(
    method: str,
    result: Mapping[str, pd.DataFrame | InParts],
    records: FlowTable,
    network: Topology,
    intake: Intake,
) -> Diagnosis:
    """The diagnosis with the tables of a method, and the verdict on the records."""
    tables, spans = conform(method, with_servers(result, network))
    tables = without_servers(tables) if network.servers_unknown else tables
    verdict, tables["findings"] = judge(records, intake, tables)
    verdict = verdict.with_scopes(scopes_of(records, network, tables))
    return Diagnosis(
        method=method,
        intake=intake,
        verdict=verdict,
        left_out=tuple(name for name in DIAGNOSIS if result and name not in result),
        spans_in_parts=spans,
        **tables,
    )


def _taken_in(
    flows: FlowTable | pd.DataFrame | pa.Table | Path | str,
    topology: Topology | Mapping[str, Any] | Path | str,
    rest: Rest | None = None,
) -> tuple[FlowTable, Topology, Intake]:
    """Read both inputs; errors of both are reported together."""
    try:
        network = _network(topology)
    except UserError as first:
        try:
            if not isinstance(flows, FlowTable):
                _records(flows)
        except UserError as second:
            raise UserError([*first.problems, *second.problems]) from second
        raise
    if isinstance(flows, FlowTable):
        return flows, network, Intake(len(flows), len(flows), {}, {})
    table, intake = place(_records(flows), network, rest)
    return table, network, intake


def _network(topology: Topology | Mapping[str, Any] | Path | str) -> Topology:
    if isinstance(topology, Topology):
        return topology
    if isinstance(topology, Mapping):
        return parse_topology(topology)
    return read_topology(topology)


def _records(flows: pd.DataFrame | pa.Table | Path | str) -> pa.Table:
    if isinstance(flows, pd.DataFrame | pa.Table):
        return adopt(flows)
    return load(flows)
