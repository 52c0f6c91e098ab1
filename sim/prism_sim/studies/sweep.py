"""How do figures depend on values of a scenario? A grid of runs, one table, one picture.

Every finished point is a small file of its own, under a key of all that its result rests on
(:attr:`prism_sim.studies.cases.Case.key`). A sweep that was killed finds them again and
repeats nothing; one whose grid has grown runs only what is new; and one that keeps other
figures runs nothing at all, for a point holds every figure of its run. A run that fails is
recorded with its error, and the rest goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.errors import Problem, UserError
from llmprism.io.writing import replacing
from prism_sim.run import Run
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.cases import Case, figures_of
from prism_sim.studies.kept import Piece, content, do_missing
from prism_sim.studies.study import Point, Study

if TYPE_CHECKING:
    import pandas as pd

TABLE, STUDY, PICTURE, POINTS = "sweep.parquet", "study.json", "sweep.png", "points"

Result = dict[str, Any]
"""Content of a point's file: ``case``, and ``figures`` or ``error``."""


def run_points(
    points: Iterable[Point],
    folder: Path,
    processes: int,
    told: Callable[[float, str], None] | None = None,
    retry: bool = False,
) -> tuple[int, int]:
    """Run what is not yet there; returns how many points were run, and how many were there.

    Parameters
    ----------
    folder : of the sweep; points go below it, a file each.
    retry : run again what failed.
    """
    pieces = [Piece(p.case.key, p.case.name, p.case) for p in points if p.case]
    return do_missing(_figures, pieces, folder / POINTS, processes, told, retry)


def _figures(case: Case) -> Result:
    return {"figures": figures_of(case)}


def table_of(study: Study, points: list[Point], folder: Path, source: Source) -> pd.DataFrame:
    """One row a run: the grid's values, ``seed``, ``method``, ``error`` and ``key``, the figures.

    Values that are no numbers are JSON text. A figure that a run leaves undefined is null, and
    so is every figure of a run that failed.

    Raises
    ------
    UserError : no run has a figure of that name.
    """
    import pandas as pd

    results = [_result(point, folder) for point in points]
    _check_figures(study, results, source)
    rows = [
        {path: _plain(value) for path, value in point.at.items()}
        | {"seed": point.seed, "method": point.method}
        | {name: result.get("figures", {}).get(name) for name in study.figures}
        | {"error": result.get("error"), "key": point.case.key if point.case else None}
        for point, result in zip(points, results, strict=True)
    ]
    types = dict.fromkeys(study.figures, "float64") | {"error": "str", "key": "str"}
    table = pd.DataFrame(rows)
    for path in study.grid:
        if any(isinstance(value, str) for value in table[path]):
            table[path] = [v if isinstance(v, str) else json.dumps(v) for v in table[path]]
    return table.astype(types)


def _result(point: Point, folder: Path) -> Result:
    if point.case is None:
        return {"error": point.refused}
    return content(folder / POINTS, point.case.key)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) else json.dumps(value)


def _check_figures(study: Study, results: list[Result], source: Source) -> None:
    known = {name for result in results for name in result.get("figures", {})}
    problems = [
        Problem(f"no run has a figure {name!r}", source.place(("figures", index)),
                did_you_mean(name, sorted(known)))
        for index, name in enumerate(study.figures)
        if known and name not in known
    ]  # fmt: skip
    if problems:
        raise UserError(problems)


def write_table(study: Study, table: pd.DataFrame, folder: Path) -> None:
    """Save ``table`` as Parquet, and what the picture needs to know of ``study``."""
    with replacing(folder / TABLE) as partial:
        table.to_parquet(partial, index=False)
    Run(folder).write_json(folder / STUDY, study.model_dump(mode="json"))
