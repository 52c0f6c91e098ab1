"""``llmprism check``: one page on what this telemetry allows, with the figures behind it.

The records are measured and diagnosed with the default method: what a stage finds in them is the
best evidence of what it can do. :mod:`llmprism.check.stages` says what follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from llmprism import pipeline
from llmprism.check.facts import Facts, measure
from llmprism.check.stages import Stage, stages
from llmprism.diagnosis import Diagnosis
from llmprism.ingest.network.content import infer
from llmprism.io.flows import place
from llmprism.io.loading import load
from llmprism.io.topology import Topology, parse_topology, read_topology
from prism_common.progress import Progress


def check(
    flows: Path, topology: Path | None, progress: Progress | None = None
) -> tuple[Facts, list[Stage], Diagnosis | None]:
    """Return the figures of a flow table, what each stage can do with it, and the diagnosis.

    Raises
    ------
    UserError : if a file is not what it should be.
    """
    table = load(flows)
    network = read_topology(topology) if topology else inferred(table)
    records, intake = place(table, network)
    diagnosis = pipeline.diagnose(table, network, progress=progress) if intake.kept else None
    found = measure(records, intake, network, diagnosis)
    return found, list(stages(found)), diagnosis


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


def as_dict(found: Facts, lines: list[Stage]) -> dict[str, Any]:
    """Return a form that JSON can hold."""
    return {"figures": asdict(found), "stages": [asdict(line) for line in lines]}
