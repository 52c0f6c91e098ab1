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
from llmprism.tables import replacing
from prism_sim.run import Run
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.cases import Case, figures_of
from prism_sim.studies.pool import outcomes
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
    cases = {point.case.key: point.case for point in points if point.case}
    missing = [case for case in cases.values() if not _is_done(folder, case, retry)]
    tasks = [(case, str(_file(folder, case))) for case in missing]
    for done, ((case, _), outcome) in enumerate(outcomes(_run_point, tasks, processes), 1):
        if outcome.error is not None:
            _write(_file(folder, case), {"case": case.name, "error": outcome.error})
        if told:
            there = len(cases) - len(missing) + done
            told(there / len(cases), f"{there} of {len(cases)}: {case.name}")
    return len(missing), len(cases) - len(missing)


def _run_point(task: tuple[Case, str]) -> None:
    case, path = task
    _write(Path(path), {"case": case.name, "figures": figures_of(case)})


def _file(folder: Path, case: Case) -> Path:
    return folder / POINTS / f"{case.key}.json"


def _write(path: Path, content: Result) -> None:
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def _is_done(folder: Path, case: Case, retry: bool) -> bool:
    path = _file(folder, case)
    return path.exists() and not (retry and "error" in Run(folder).read_json(path))


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
    return Run(folder).read_json(_file(folder, point.case))


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
