"""``llmprism check``: one page on what this telemetry allows, with the figures behind it.

What needs no diagnosis is measured on the records: ports, paths, clock, idle gap, sampling. The
length of a step comes from a diagnosis; without one, the stages that need steps are "cannot
tell".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from llmprism import pipeline
from llmprism.diagnosis import Diagnosis
from llmprism.ingest.network.inferred import infer
from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable, Intake, place
from llmprism.io.loading import load
from llmprism.io.topology import Topology, parse_topology, read_topology
from llmprism.quantities import duration, percent

CAN, PARTLY, CANNOT = "can", "partly", "cannot"
_FINE = 100  # ticks or idle gaps in a step, for its length to about 1 %
_SHARE = 0.5


@dataclass(frozen=True)
class Line:
    """What one stage can do: ``can``, ``partly`` or ``cannot``, the figures, what would mend it."""

    stage: str
    answer: str
    figures: str
    mend: str = ""


@dataclass(frozen=True)
class Facts:
    """Figures of the records."""

    records: int
    tick_ns: int
    record_ns: float
    with_ports: float
    with_path: float
    idle_gap_ns: int | None
    active_timeout_ns: int | None
    sampling: int
    step_ns: float | None


def check(flows: Path, topology: Path | None) -> tuple[Facts, list[Line]]:
    """Return the figures of a flow table, and what each stage can do with it.

    Raises
    ------
    UserError : if a file is not what it should be.
    """
    table = load(flows)
    network = read_topology(topology) if topology else inferred(table)
    records, intake = place(table, network)
    diagnosis = pipeline.diagnose(table, network) if intake.kept else None
    found = facts(records, diagnosis)
    return found, list(page(found, intake, bool(np.isfinite(network.fastest_gbps))))


def inferred(table: pa.Table) -> Topology:
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


def facts(flows: FlowTable, diagnosis: Diagnosis | None) -> Facts:
    """Measure the records; the length of a step is the median of the diagnosis."""
    length = flows.durations_ns.astype(np.float64)
    ports = flows.optional.get("src_port")
    jobs = diagnosis.verdict.figures.get("jobs", []) if diagnosis else []
    steps = [job["step_ns"] for job in jobs if job["step_ns"] > 0 and job["steps_most"] >= 2]
    sampling = [int(part) for part in flows.meta.get("sampling", "").split(":") if part.isdecimal()]
    return Facts(
        len(flows),
        clock_tick_ns(flows.start_ns, flows.end_ns),
        float(np.median(length)) if length.size else 0.0,
        0.0 if ports is None or not ports.size else float(np.mean(ports >= 0)),
        float(np.mean(flows.path >= 0)) if flows.path.size else 0.0,
        _whole(flows.meta.get("idle_gap_ns")),
        _whole(flows.meta.get("active_timeout_ns")),
        max([1, *sampling]),
        float(np.median(steps)) if steps else None,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def page(found: Facts, intake: Intake, has_rates: bool) -> Iterator[Line]:
    """Yield what each stage can do with the records."""
    kept = f"{intake.kept:,} of {intake.rows:,} records"
    yield Line("jobs and pairs", CAN if intake.kept else CANNOT, kept)
    yield _steps(found)
    yield _messages(found)
    share = percent(found.with_path)
    yield Line(
        "slow switch or link",
        CAN if found.with_path > _SHARE else CANNOT,
        f"{share} of the records have a path",
        "" if found.with_path > _SHARE else "export at leaves and spines, and ingest all of them",
    )
    yield Line(
        "parallel connections",
        CAN if found.with_ports > _SHARE else CANNOT,
        f"{percent(found.with_ports)} of the records have ports",
        "" if found.with_ports > _SHARE else "add both ports to the exporter's flow key",
    )
    yield Line(
        "load of links",
        CAN if has_rates else CANNOT,
        "link rates are known" if has_rates else "no link rate is known",
        "" if has_rates else "give --topology with Gbit/s",
    )


def _steps(found: Facts) -> Line:
    figures = [
        f"clock tick {duration(found.tick_ns)}",
        f"median record {duration(found.record_ns)}",
    ]
    if found.sampling > 1:
        figures.append(f"sampled 1:{found.sampling}")
        return Line("steps", CANNOT, ", ".join(figures), "export every packet of these hosts")
    if found.step_ns is None:
        how = "no step was found: see the reasons of llmprism on the same files"
        return Line("steps", CANNOT, ", ".join(figures), how)
    figures.insert(0, f"step {duration(found.step_ns)}")
    limits = []
    if found.tick_ns * 2 > found.step_ns:
        limits.append("a finer clock in the records (ms or ns)")
    if (found.idle_gap_ns or 0) > found.step_ns:
        limits.append(f"an idle timeout below {duration(found.step_ns / 10)}")
    if found.record_ns > found.step_ns:
        limits.append(f"timeouts below {duration(found.step_ns / 10)}")
    if limits:
        return Line("steps", CANNOT, ", ".join(figures), "set " + "; ".join(limits))
    error = max(found.tick_ns, 1) / found.step_ns
    figures.append(f"error of a step from the clock up to {percent(error)}")
    is_fine = found.tick_ns * _FINE <= found.step_ns
    return Line("steps", CAN if is_fine else PARTLY, ", ".join(figures))


def _messages(found: Facts) -> Line:
    if found.idle_gap_ns is None:
        mend = "tell how records are cut: ingest with the exporter's idle timeout"
        return Line("micro-batches", PARTLY, "the idle gap is not known", mend)
    gap = f"idle gap {duration(found.idle_gap_ns)}"
    if found.step_ns is None:
        return Line("micro-batches", CANNOT, gap + ", no step found")
    per_step = found.step_ns / found.idle_gap_ns
    answer = CAN if per_step >= _FINE else PARTLY if per_step >= 10 else CANNOT
    wanted = "" if answer == CAN else f"set the idle timeout to {duration(found.step_ns / _FINE)}"
    return Line("micro-batches", answer, f"{gap}, {per_step:,.0f} in a step", wanted)


def as_dict(found: Facts, lines: list[Line]) -> dict[str, Any]:
    """Return a form that JSON can hold."""
    return {"figures": vars(found), "stages": [vars(line) for line in lines]}
