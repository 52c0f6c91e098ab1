"""``llmprism check``: one page on what this telemetry allows, with the figures behind it.

The records are measured and diagnosed with the default method: what a stage finds in them is the
best evidence of what it can do. :mod:`llmprism.check.stages` says what follows. Counters of ports
instead of flow records have stages of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism import pipeline
from llmprism.check.facts import measure
from llmprism.check.stages import CAN, CANNOT, PARTLY, Stage, stages
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose
from llmprism.counters.names import meaning_of
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import EVENTS, IN, OUT
from llmprism.counters.rhythm import SHORTEST
from llmprism.counters.steps import SAMPLES
from llmprism.io.flows import place
from llmprism.io.loading import load
from llmprism.io.topology import Topology, parse_topology, read_topology
from llmprism.network.content import infer
from prism_common.errors import Problem, UserError
from prism_common.progress import Progress
from prism_common.quantities import duration

FLOWS_SHOW = "flow records of single messages"


@dataclass(frozen=True)
class Page:
    """What a table allows.

    Attributes
    ----------
    heading : how much the table has.
    content : a form that JSON can hold: the stages, and the figures of flow records.
    verdict : lines of a diagnosis of the table.
    """

    heading: str
    stages: list[Stage]
    content: dict[str, Any]
    verdict: list[str]


def check(table: Path, topology: Path | None, progress: Progress | None = None) -> Page:
    """Measure and diagnose a table of flows or of counters, and say what each stage can do with it.

    Raises
    ------
    UserError : if a file is not what it should be, or counters have no topology.
    """
    return _counters(table, topology) if _is_counters(table) else _flows(table, topology, progress)


def _flows(flows: Path, topology: Path | None, progress: Progress | None) -> Page:
    table = load(flows)
    network = read_topology(topology) if topology else _inferred(table)
    records, intake = place(table, network)
    diagnosis = pipeline.diagnose(table, network, progress=progress) if intake.kept else None
    found = measure(records, intake, network, diagnosis)
    lines = [*stages(found)]
    content = {"figures": asdict(found), "stages": [asdict(line) for line in lines]}
    verdict = diagnosis.verdict.lines() if diagnosis else []
    return Page(f"{found.records:,} records", lines, content, verdict)


def _inferred(table: pa.Table) -> Topology:
    """Return what the records of a flow table show of the network."""
    pairs = {(row["src"], row["dst"]): row["n"] for row in _counted(table, "src", "dst")}
    paths = {}
    if "path" in table.column_names:
        rows = _counted(table, "path", "src", "dst")
        paths = {(r["path"], r["src"], r["dst"]): r["n"] for r in rows if r["path"]}
    pairs = {pair: count for pair, count in pairs.items() if None not in pair}
    return parse_topology(infer(pairs, paths))


def _counted(table: pa.Table, *names: str) -> Iterator[dict[str, Any]]:
    plain = pa.table({name: table[name].cast(pa.string()) for name in names})
    for row in plain.group_by(list(names)).aggregate([([], "count_all")]).to_pylist():
        yield {**row, "n": row["count_all"]}


def _is_counters(path: Path) -> bool:
    """Whether this is a Parquet table of counters, and not one of flow records."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    counted = {found.column for name in names if (found := meaning_of(name))}
    return {IN, OUT} <= counted and "src" not in names


def _counters(table: Path, topology: Path | None) -> Page:
    if topology is None:
        how = "name it: --topology FILE"
        raise UserError(Problem("counters need a topology: which NICs share a server", "", how))
    readings = read([str(table)], Options())
    result = diagnose(readings, read_topology(topology))
    counted = [name for name in EVENTS if readings.ports and name in readings.ports[0].values]
    lines = [*_stages_of_counters(result, counted)]
    heading = f"{result.diagnosis.intake.rows:,} readings of {len(result.codes):,} ports"
    content = {"stages": [asdict(line) for line in lines]}
    return Page(heading, lines, content, result.diagnosis.verdict.lines())


def _stages_of_counters(result: CounterDiagnosis, counted: list[str]) -> Iterator[Stage]:
    """What each stage can do; ``counted`` are the columns besides bytes."""
    jobs, refresh_ns = result.jobs.count, result.curves.resolution_ns
    new = f"new counters every {duration(refresh_ns)}" if refresh_ns else "no counter changes"
    known = sum(rhythm.period_ns > 0 for rhythm in result.rhythms)
    single = result.diagnosis.steps["job"].nunique()
    yield Stage("jobs", CAN if jobs else CANNOT, f"{jobs} found among {len(result.codes)} ports",
                "" if jobs else "record longer, or read more often")  # fmt: skip
    shorter = f"steps below {duration(SHORTEST * refresh_ns)} need a shorter interval"
    shorter = "" if known == jobs > 0 else shorter
    yield Stage("length of a step", _of(known, jobs), f"{known} of {jobs} jobs; {new}", shorter)
    lacking = [r.period_ns for r in result.rhythms if 0 < r.period_ns < SAMPLES * refresh_ns]
    finer = f"an interval of {duration(min(lacking) / SAMPLES)}" if lacking else ""
    yield Stage("single steps", _of(single, jobs), f"{single} of {jobs} jobs", finer)
    yield Stage("bytes of each NIC in a step", _of(known, jobs), "as exact as the counters")
    yield Stage("slow jobs", _of(single, jobs), "from single steps")
    yield Stage("slow parts", PARTLY if single else CANNOT,
                "NICs that differ from their peers; in a ring, all wait for the slowest",
                FLOWS_SHOW)  # fmt: skip
    yield Stage("errors, discards, marks and pauses", CAN if counted else CANNOT,
                ", ".join(counted) or "not in the table",
                "" if counted else "export them with the bytes")  # fmt: skip
    yield Stage("pairs, layouts, messages and paths", CANNOT, "counters show none", FLOWS_SHOW)


def _of(known: int, jobs: int) -> str:
    """The answer for a stage that works for some of the jobs."""
    return CAN if known == jobs > 0 else PARTLY if known else CANNOT
