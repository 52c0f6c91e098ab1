"""Writes all files of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from llmprism.io.notes import json_object
from prism_common.files import replacing
from prism_sim.operations import figures, page, results
from prism_sim.operations.study import Study
from prism_sim.products import RECORD, stage_files
from prism_sim.render import paint
from prism_sim.studies.kept import study_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILES = {"table": "parquet", "means": "json", "figure": "png", "page": "html"}
_ALL = (*(f"operations.{ending}" for ending in _FILES.values()), "worth.png", "sweep.png")
_STAGE = "operate"


@dataclass(frozen=True)
class Written:
    """A table for the terminal, the figures as data, and the files by name."""

    shown: pd.DataFrame
    data: dict[str, Any]
    files: dict[str, str]

    def within(self, folder: Path) -> Written:
        """Return the same with the files in ``folder``, where they were moved."""
        files = {name: str(folder / Path(path).name) for name, path in self.files.items()}
        return replace(self, files=files)


def own_folder(folder: Path) -> AbstractContextManager[None]:
    """Be the only process that writes into the folder of a study."""
    return study_folder(folder, "points", _ALL, _STAGE, _is_older_study)


def files_of(folder: Path) -> AbstractContextManager[Path]:
    """Yield a folder for the files of a study; they are moved into place at the end."""
    return stage_files(folder, _STAGE)


def _is_older_study(folder: Path) -> bool:
    """Whether the folder has a study from before records existed: its points and its means."""
    has_points = any((folder / "points").glob("*.json"))
    is_recorded = (folder / RECORD).exists()
    return has_points and not is_recorded and "policies" in json_object(folder / _ALL[1])


def write_policies(
    study: Study,
    rows: list[dict[str, Any]],
    windows: list[dict[str, Any]],
    folder: Path,
    swept: Sequence[dict[str, Any]] = (),
) -> Written:
    """Write all replications of policies, their means, pictures and the page.

    ``windows`` has what a diagnoser found in flows at chosen moments, ``swept`` the replications of
    a sweep.
    """
    paths = _paths(folder)
    table = results.policies(study, rows)
    means = results.means(table)
    nested = {name: table[name].map(json.dumps) for name in ("lost_by_cause", "ettr_by_day")}
    data = {
        "mttf_s": study.mttf_s,
        "policies": json.loads(means.join(results.beside(study, means)).to_json(orient="index")),
        "differences": _records(results.differences(table)),
        "lost_gpu_hours": json.loads(results.lost_by_cause(table).to_json(orient="index")),
    }
    if study.worth:
        points = results.worth(study, rows)
        data["worth"] = _records(results.worth_means(points))
        paths["worth"] = folder / "worth.png"
        paint.write_png(figures.draw_worth(points), paths["worth"])
    if swept:
        points = results.sweep_means(study, [*swept])
        data["sweep"] = _records(points)
        paths["sweep"] = folder / "sweep.png"
        paint.write_png(figures.draw_sweep(points), paths["sweep"])
    if windows:
        data["windows"] = windows
        paths["windows"] = folder / "windows"
    _write(table.assign(**nested), data, figures.draw(table), paths)
    page.write(study, rows, windows, paths["page"], [*swept])
    shown = means[["ettr", "ettr_half", "detect_s", "recover_s", "by_hand", "false_alarms"]]
    return Written(shown, data, _names(paths))


def _paths(folder: Path) -> dict[str, Path]:
    return {name: folder / f"operations.{ending}" for name, ending in _FILES.items()}


def _names(paths: dict[str, Path]) -> dict[str, str]:
    return {name: str(path) for name, path in paths.items()}


def _write(
    table: pd.DataFrame, data: dict[str, Any], drawn: Figure, paths: dict[str, Path]
) -> None:
    with replacing(paths["table"]) as partial:
        table.to_parquet(partial, index=False)
    with replacing(paths["means"]) as partial:
        partial.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    paint.write_png(drawn, paths["figure"])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain values."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return found
