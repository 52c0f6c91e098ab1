"""Gold: what ``prism`` answers today for captures, bundled scenarios and drawn worlds.

A change of form must give the same tables to the last bit, so each table is reduced to a hash. A
change of decision carries the paired differences of the figures, so each world is graded as well.

``python -m evaluation gold`` compares with ``results/reference/gold.json``, and ``--update``
rewrites that file. Results are kept under a key of the code: a run that was stopped continues.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import typer

from evaluation.exam import paired, truth
from evaluation.exam.measuring import Row, beside, diagnosed
from evaluation.exam.worlds import RESULTS, World, scenario_of, simulated, worlds
from evaluation.paths import REFERENCE, ROOT
from llmprism.io.tables import DIAGNOSIS
from prism_sim.loading.bundled import bundled
from prism_sim.run_folder import Run
from prism_sim.toolkit import Piece, default_processes, fingerprint, kept_results, load_scenario

GOLD = REFERENCE / "gold.json"
FIRST_SEED = 7000
"""Seed of the first drawn world of each family."""
DRAWN = 11
"""Drawn worlds of each family for development."""
FOLDERS = ("tiny", "workloads", "telemetry", "faults", "hostile")
"""Folders of bundled scenarios that are worlds of gold."""
DIGITS = 9
"""Significant digits of a number that count: the last ones depend on the machine."""


class Case(NamedTuple):
    """One world of gold: ``of`` is its family, or ``captures`` or ``bundled``, with its name."""

    of: str
    name: str


def cases(drawn: int = DRAWN) -> list[Case]:
    """All worlds: files of captures, bundled scenarios, then drawn worlds, one of each in turn."""
    captures = sorted((ROOT / "tests" / "fixtures").glob("*/*/flows*.parquet"))
    of_files = [
        Case("captures", path.relative_to(ROOT).with_suffix("").as_posix())
        for path in captures
        if (path.parent / "truth").is_dir()
    ]
    named = [Case("bundled", name) for name in bundled() if name.split("/")[0] in FOLDERS]
    fresh = [Case(one.family, str(one.seed)) for one in worlds("develop", drawn, FIRST_SEED)]
    return of_files + named + fresh


def graded_case(task: tuple[Case, Path]) -> Row:
    """The hashes of all tables of one case, and its grade in the form of the exam."""
    case, kept = task
    row: Row = {"family": case.of, "seed": case.name, "set": "develop", "faults": []}
    if case.of == "captures":
        flows = (ROOT / case.name).with_suffix(".parquet")
        run = Run(flows.parent)
        row["job_steps"] = len(run.truth("steps")[["job", "step"]].drop_duplicates())
    else:
        scenario = (
            load_scenario(bundled()[case.name])
            if case.of == "bundled"
            else scenario_of(World(case.of, int(case.name)), kept / "drawn")
        )
        run = simulated(scenario, kept / "worlds")
        flows = run.flows
        row |= truth.of_world(run, scenario)
    with beside(run, flows) as own:
        grade = diagnosed(own, "prism")
        if case.of == "captures":
            grade["faults"] = []
        row["methods"] = {"prism": grade}
        row["tables"] = {"flows": _hash(pq.read_table(own.flows).to_pandas())}
        row["tables"] |= {
            name: _hash(pq.read_table(own.diagnosis_folder / f"{name}.parquet").to_pandas())
            for name in DIAGNOSIS
        }
    return {"result": row}


def results(asked: Sequence[Case], kept: Path = RESULTS, processes: int | None = None) -> list[Row]:
    """The rows of all cases, in order; missing ones are computed."""
    pieces = [Piece(_key(case), " ".join(case), (case, kept)) for case in asked]
    found = kept_results(
        graded_case,
        pieces,
        kept / "gold",
        processes or default_processes(),
        lambda _, text: print(text, file=sys.stderr),
    )
    for one in found:
        if "error" in one:
            print(f"left out: {one['case']}: {one['error']}", file=sys.stderr)
    return [one["result"] for one in found if "error" not in one]


def changed(before: Mapping[str, Any], after: Sequence[Row]) -> Iterator[str]:
    """A line for each case of ``before`` of which some tables differ now."""
    known = {(row["family"], row["seed"]): row["tables"] for row in before["rows"]}
    for row in after:
        tables = known.get((row["family"], row["seed"]), {})
        names = [name for name in tables if tables[name] != row["tables"].get(name)]
        if names:
            yield f"{row['family']} {row['seed']}: {', '.join(names)}"


def gold(
    update: Annotated[bool, typer.Option("--update", help="Rewrite the reference.")] = False,
    drawn: Annotated[int, typer.Option("--worlds", min=0, help="Of each family.")] = DRAWN,
    reference: Annotated[Path, typer.Option(help="Compare with this file.")] = GOLD,
    kept: Annotated[Path, typer.Option(help="Where simulations and results are kept.")] = RESULTS,
    processes: Annotated[int | None, typer.Option(min=1, help="Parallel processes.")] = None,
) -> None:
    """Compare all tables of prism with the reference; exit 3 if one differs."""
    rows = results(cases(drawn), kept, processes)
    before = json.loads(reference.read_text(encoding="utf-8")) if reference.exists() else None
    lines = [*changed(before, rows)] if before else []
    typer.echo(f"{len(rows)} worlds, {len(lines)} differ")
    typer.echo("\n".join(lines))
    if before and lines:
        found = paired.differences(before["rows"], rows)
        typer.echo(paired.as_table(found, ("reference", "now")))
    if update:
        rows = [_slim(row) for row in rows]
        text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        reference.write_text(f'{{"rows": [\n{text}\n]}}\n', encoding="utf-8")
    elif lines:
        raise typer.Exit(3)


def _slim(value: Any) -> Any:
    """The same with numbers of four digits, and without times of this machine."""
    if isinstance(value, dict):
        return {key: _slim(one) for key, one in value.items() if key not in ("cpu_s", "answers")}
    if isinstance(value, list):
        return [_slim(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _key(case: Case) -> str:
    text = json.dumps([fingerprint(), Path(__file__).read_text(encoding="utf-8"), case])
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _hash(table: pd.DataFrame) -> str:
    """A hash of the content of a table: names and values of its columns, in order."""
    digest = hashlib.blake2b(digest_size=8)
    for name in table:
        column = table[name]
        digest.update(str(name).encode())
        if column.dtype.kind == "f":
            values = column.to_numpy(np.float64)
            digest.update("".join(f"{value:.{DIGITS}g}," for value in values).encode())
        else:
            hashes = pd.util.hash_pandas_object(column.astype(str), index=False)
            digest.update(hashes.to_numpy().tobytes())
    return digest.hexdigest()
