"""What each stage of a diagnosis can do with counters of ports instead of flow records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.check.stages import CAN, CANNOT, PARTLY, Stage
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose
from llmprism.counters.names import meaning_of
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import EVENTS, IN, OUT
from llmprism.counters.rhythm import SHORTEST
from llmprism.counters.steps import SAMPLES
from llmprism.io.topology import read_topology
from prism_common.errors import Problem, UserError
from prism_common.quantities import duration

FLOWS_SHOW = "flow records of single messages"


def is_counters(path: Path) -> bool:
    """Whether this is a Parquet table of counters, and not one of flow records."""
    try:
        names = pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False
    counted = {found.column for name in names if (found := meaning_of(name))}
    return {IN, OUT} <= counted and "src" not in names


def check(path: Path, topology: Path | None) -> tuple[CounterDiagnosis, list[Stage]]:
    """Diagnose a table of counters, and say what each stage can do with it.

    Raises
    ------
    UserError : the table or the topology is wrong, or there is none.
    """
    if topology is None:
        how = "name it: --topology FILE"
        raise UserError(Problem("counters need a topology: which NICs share a server", "", how))
    readings = read([str(path)], Options())
    result = diagnose(readings, read_topology(topology))
    counted = [name for name in EVENTS if readings.ports and name in readings.ports[0].values]
    return result, list(stages(result, counted))


def stages(result: CounterDiagnosis, counted: list[str]) -> Iterator[Stage]:
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
