"""A run folder: all results of one run, readable without this project.

Each stage reads the files of the stages before it:
simulate -> flows, topology, truth; diagnose -> diagnosis; score -> score.json;
render -> trace.json, report.html. A :class:`Run` names these files, reads and writes
them; it computes nothing.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from llmprism.io import stored_tables
from llmprism.io.stored_tables import read_stored
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.writing import write_table
from prism_common.errors import Problem, UserError
from prism_common.files import write_json

_TYPES = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64(), "flag": pa.bool_()}
_TABLES = tomllib.loads(Path(__file__).with_name("truth_tables.toml").read_text(encoding="utf-8"))


def _schemas(of: str) -> dict[str, pa.Schema]:
    return {
        name: pa.schema({column: _TYPES[kind] for column, kind in columns.items()})
        for name, columns in _TABLES[of].items()
    }


TRUTH = _schemas("run")
"""Schema of every truth table the simulator writes, by name."""

LOGS_TRUTH = _schemas("logs")
"""Schema of every truth table of logs, by name; docs/logs.md describes every column."""

ADDED_LATER = frozenset({"layouts", "hiccups"})
"""Tables that captures and older runs lack."""

MEASURED = {"faults": ("slowed_job", "slowdown", "extra_ns")}
"""Columns of truth tables that are null where nothing was measured."""

_WHAT_AND_WHEN = ("job", "rank", "address", "src", "dst", "kind", "step", "start_ns", "end_ns")


def required_columns(name: str) -> list[str]:
    """The columns that the truth table ``name`` of any capture has: what it is about, and when.

    A capture without faults may have a table ``faults`` without any column.
    """
    schema = TRUTH.get(name, pa.schema([]))
    return [column for column in schema.names if column in _WHAT_AND_WHEN and name != "faults"]


@dataclass(frozen=True)
class Run:
    """The files of one run below ``folder``."""

    folder: Path

    @classmethod
    def default(cls, name: str, seed: int, out: str | Path | None = None) -> Run:
        """The run in ``out``; if that is None, in ``results/NAME/SEED``."""
        if out is not None and not str(out).strip():
            raise UserError(Problem("the name of the folder is empty", "out"))
        return cls(Path("results") / name / str(seed) if out is None else Path(out))

    @property
    def flows(self) -> Path:
        return self.folder / "flows.parquet"

    @property
    def counters(self) -> Path:
        """The counters of ports, if the scenario asks for them."""
        return self.folder / "counters.parquet"

    @property
    def collectives(self) -> Path:
        """The folder of what communication libraries write, if the scenario asks for it."""
        return self.folder / "collectives"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def topology(self) -> Path:
        return self.folder / "topology.json"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def score(self) -> Path:
        return self.folder / "score.json"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.json"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def diagnosis_folder(self) -> Path:
        return self.folder / "diagnosis"

    def truth(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Read ``truth/<name>.parquet``; foreign captures may have more or fewer columns."""
        path, schema = self.folder / "truth" / f"{name}.parquet", TRUTH.get(name, pa.schema([]))
        return _read(path, schema, required_columns(name), columns)

    def has_truth(self, name: str) -> bool:
        """Whether there is a truth table ``name``."""
        return (self.folder / "truth" / f"{name}.parquet").exists()

    def diagnosis(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Read ``diagnosis/<name>.parquet``."""
        path, required = self.diagnosis_folder / f"{name}.parquet", stored_tables.required_columns
        return _read(path, DIAGNOSIS[name], required(name), columns)

    def write_truth(self, name: str, frame: pd.DataFrame | pa.Table) -> None:
        """Write a truth table; columns that need not be measured may be missing."""
        if isinstance(frame, pd.DataFrame):
            missing = [column for column in MEASURED.get(name, ()) if column not in frame]
            frame = frame.assign(**dict.fromkeys(missing))
        write_table(frame, self.folder / "truth" / f"{name}.parquet", TRUTH[name])

    def write_diagnosis(self, name: str, frame: pd.DataFrame | pa.Table) -> None:
        write_table(frame, self.diagnosis_folder / f"{name}.parquet", DIAGNOSIS[name])

    def read_json(self, path: Path) -> dict[str, Any]:
        """Read one of the JSON files; a missing or invalid one is a :class:`UserError`."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UserError(_missing(path)) from error
        except (ValueError, RecursionError) as error:
            raise UserError(Problem(f"not valid JSON: {error}", str(path))) from error
        if not isinstance(content, dict):
            what = f"the file contains a {type(content).__name__} instead of a JSON object"
            raise UserError(Problem(what, str(path), "repeat the stage that writes it"))
        return content

    def write_json(self, path: Path, content: dict[str, Any]) -> None:
        write_json(path, content, allow_nan=False)


def _missing(path: Path) -> Problem:
    return Problem(f"no {path.name} here", str(path), "first run the stage that writes it")


def _read(
    path: Path, schema: pa.Schema, required: Collection[str], columns: list[str] | None
) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = read_stored(path, schema, required, columns).to_pandas()
    except FileNotFoundError as error:
        raise UserError(_missing(path)) from error
    return frame
