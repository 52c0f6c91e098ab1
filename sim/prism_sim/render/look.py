"""Input of the figures: the tables of a saved run, complete or not.

Real flows have no truth, and a simulation that was not diagnosed has no diagnosis. A missing table
is read as an empty one with the usual columns, so every figure can be drawn for every run
and names the missing part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.errors import Problem, UserError
from llmprism.io.tables import DIAGNOSIS
from prism_sim.run_folder import TRUTH, Run
from prism_sim.score.load import complete

Where = list[tuple[str, str, Any]]
"""Conditions (column, operator, value) that selected rows meet; all must hold."""


def truth(run: Run, name: str, where: Where | None = None) -> pd.DataFrame:
    """Truth table ``name``, or its rows ``where`` conditions hold; empty if the run has none."""
    return _read(run.folder / "truth" / f"{name}.parquet", TRUTH[name], where)


def diagnosis(run: Run, name: str, where: Where | None = None) -> pd.DataFrame:
    """Diagnosis table ``name``, or its rows ``where`` conditions hold; empty if there is none."""
    return _read(diagnosis_folder(run) / f"{name}.parquet", DIAGNOSIS[name], where)


def diagnosis_folder(run: Run) -> Path:
    """The folder of the diagnosis tables: ``diagnosis``, or the folder itself."""
    alone = (run.folder / "intake.json").exists() and not run.diagnosis_folder.exists()
    return run.folder if alone else run.diagnosis_folder


def intake(run: Run) -> dict[str, Any]:
    """Method, and counts of records read and set aside, as the diagnoser recorded them."""
    path = diagnosis_folder(run) / "intake.json"
    return run.read_json(path) if path.exists() else {}


def rows(run: Run, side: str, name: str) -> int:
    """Length of a table of ``truth`` or ``diagnosis``, without reading it."""
    folder = run.folder / "truth" if side == "truth" else diagnosis_folder(run)
    path = folder / f"{name}.parquet"
    return int(pq.read_metadata(path).num_rows) if path.exists() else 0


_read_already: ContextVar[dict[Path, pd.DataFrame] | None] = ContextVar("tables", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """Read every whole table only once inside of this context."""
    token = _read_already.set({})
    try:
        yield
    finally:
        _read_already.reset(token)


def _read(path: Path, schema: pa.Schema, where: Where | None) -> pd.DataFrame:
    known = _read_already.get()
    if known is None or where is not None:
        return _read_again(path, schema, where)
    if path not in known:
        known[path] = _read_again(path, schema, where)
    return known[path].copy()


def _read_again(path: Path, schema: pa.Schema, where: Where | None) -> pd.DataFrame:
    table = schema.empty_table()
    nothing = any(operator == "in" and not len(value) for _, operator, value in where or ())
    if path.exists() and not nothing:
        try:
            table = pq.read_table(path, filters=where)
        except pa.ArrowException as error:
            raise UserError(Problem(f"not a readable Parquet file: {error}", str(path))) from error
    return complete(table.to_pandas(), schema)


def flows(run: Run, wanted: Iterable[str], where: Where | None = None) -> pd.DataFrame:
    """Columns ``wanted`` of the flow table, names as categories; a missing one is all null.

    Only the records ``where`` conditions hold.
    """
    columns = list(wanted)
    if not run.flows.exists():
        return pd.DataFrame(columns=columns)
    there = [name for name in columns if name in pq.read_schema(run.flows).names]
    names = [name for name in there if name in ("src", "dst", "path")]
    frame = pq.read_table(
        run.flows, columns=there, read_dictionary=names, filters=where
    ).to_pandas()
    for name in names:
        frame[name] = frame[name].astype("category")
    for name in set(columns) - set(there):
        frame[name] = pd.Series(np.nan, index=frame.index)
    return pd.DataFrame(frame[columns])


def json_of(run: Run, name: str) -> dict[str, Any]:
    """``topology`` or ``manifest`` of the run; empty if there is none."""
    path = getattr(run, name)
    return run.read_json(path) if path.exists() else {}


def origin_ns(run: Run) -> int:
    """Time zero of all figures [ns]: the first step known, or the first flow, or 0."""
    for steps in (truth(run, "steps"), diagnosis(run, "steps"), flows(run, ["start_ns"])):
        if len(steps):
            return int(steps["start_ns"].min())
    return 0


def name_of(run: Run) -> str:
    """A name for the run."""
    manifest = json_of(run, "manifest")
    return str(manifest.get("name") or manifest.get("case") or run.folder.name)
