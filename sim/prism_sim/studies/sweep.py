"""Sweeps: runs at many places of a scenario, one table, one figure.

Every finished point is a small file, under a key of everything that its result
depends on (:attr:`prism_sim.studies.cases.RunCase.key`), including the code of the method. A sweep
that was killed finds these files and repeats nothing. A sweep with more places runs
only the new points. A sweep with other figures runs nothing, because a point contains every
figure of its run. If a run fails, its error is recorded, and the rest continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_common.errors import Problem
from prism_common.files import replacing
from prism_sim.products import RECORD
from prism_sim.run_folder import Run
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.cases import RunCase, figures_of
from prism_sim.studies.kept import Piece, content, do_missing, is_figures, study_folder
from prism_sim.studies.pool import Workers
from prism_sim.studies.study import ERROR, KEY, METHOD, SEED, Point, Study

if TYPE_CHECKING:
    import pandas as pd

STAGE = "sweep"
TABLE, STUDY, PICTURE, POINTS = "sweep.parquet", "study.json", "sweep.png", "points"
FILES = (TABLE, STUDY, PICTURE)

Result = dict[str, Any]
"""Content of a point's file: ``case``, and ``figures`` or ``error``."""


@dataclass(frozen=True)
class Row:
    """A run of the sweep as a row of its table.

    Attributes
    ----------
    at : the value of each column that describes its place.
    key : of its result; None if the scenario is invalid there, with the reason in ``refused``.
    """

    at: dict[str, Any]
    seed: int
    method: str
    key: str | None
    refused: str | None = None


@dataclass(frozen=True)
class Swept:
    """All runs of a sweep; ``made`` counts new ones, ``there`` earlier ones."""

    rows: list[Row]
    made: int
    there: int


def own_folder(folder: Path) -> AbstractContextManager[None]:
    """Be the only process that writes into the folder of a sweep."""
    return study_folder(folder, POINTS, FILES, STAGE, _is_older_sweep)


def _is_older_sweep(folder: Path) -> bool:
    """Whether the folder has a sweep from before records existed: its points, and its study."""
    try:
        study = json.loads((folder / STUDY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    known = isinstance(study, dict) and set(study) >= {"scenario", "grid", "figures"}
    recorded = (folder / RECORD).exists()
    return known and not recorded and any((folder / POINTS).glob("*.json"))


def run_points(
    points: Iterable[Point],
    folder: Path,
    processes: int,
    progress: Callable[[float, str], None] | None = None,
    retry: bool = False,
    *,
    total: int,
    workers: Workers | None = None,
) -> Swept:
    """Run the missing points.

    The result does not depend on the number or kind of workers.

    Parameters
    ----------
    points : read one by one, so there may be many; ``total`` is their number.
    folder : of the sweep; each point is a file below it.
    processes : parallel processes of this machine, unless ``workers`` are given.
    progress : called with the fraction done and a sentence.
    retry : repeat failed runs.
    """
    rows: list[Row] = []
    counts = do_missing(
        _figures,
        _pieces(points, rows),
        folder / POINTS,
        processes,
        progress,
        retry,
        total=total,
        result="figures",
        is_result=is_figures,
        workers=workers,
    )
    return Swept(rows, *counts)


def _pieces(points: Iterable[Point], rows: list[Row]) -> Iterator[Piece[RunCase]]:
    """The points to run; every point is added to ``rows`` as it passes."""
    for point in points:
        key = point.case.key if point.case else None
        rows.append(Row(point.at, point.seed, point.method, key, point.refused))
        if point.case:
            yield Piece(point.case.key, point.case.name, point.case)


def _figures(case: RunCase) -> Result:
    return {"figures": figures_of(case)}


def table_of(study: Study, rows: Sequence[Row], folder: Path) -> pd.DataFrame:
    """One row per run: its place, ``seed``, ``method``, the figures, ``error``, ``key``.

    Values that are not numbers are JSON text. A figure is null if it is undefined, or if the run
    failed.
    """
    import pandas as pd

    lines = []
    for row in rows:
        saved = _result(row, folder)
        figures = saved.get("figures", {})
        lines.append(
            {column: _plain(value) for column, value in row.at.items()}
            | {SEED: row.seed, METHOD: row.method}
            | {name: figures.get(name) for name in study.collected}
            | {ERROR: saved.get("error"), KEY: row.key}
        )
    types = dict.fromkeys(study.collected, "float64") | {ERROR: "string", KEY: "str"}
    table = pd.DataFrame(lines)
    for column in study.columns:
        if any(isinstance(value, str) for value in table[column]):
            values = table[column]
            table[column] = [v if isinstance(v, str) else json.dumps(v) for v in values]
    return table.astype(types)


def _result(row: Row, folder: Path) -> Result:
    if row.key is None:
        return {"error": row.refused}
    return content(folder / POINTS, row.key)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else json.dumps(value)


def absent_figures(
    study: Study, rows: Sequence[Row], folder: Path, source: Source
) -> list[Problem]:
    """Figures that no run has, although the catalogue allows their names; with similar ones."""
    names = [frozenset(_result(row, folder).get("figures", {})) for row in rows]
    known = sorted(frozenset[str]().union(*names))
    return [
        Problem(f"no run has the figure {name!r}", source.place(("figures", index)),
                did_you_mean(name, known))
        for index, name in enumerate(study.figures)
        if known and name not in known
    ]  # fmt: skip


def write_table(study: Study, table: pd.DataFrame, folder: Path) -> None:
    """Save ``table`` as Parquet, and the parts of ``study`` that the figure needs."""
    with replacing(folder / TABLE) as partial:
        table.to_parquet(partial, index=False)
    drawn = {column: by for design in study.designs for column, by in design.drawn_scales.items()}
    facts = {"columns": study.columns, "drawn": drawn, "axis": study.axis}
    Run(folder).write_json(folder / STUDY, study.model_dump(mode="json") | facts)
