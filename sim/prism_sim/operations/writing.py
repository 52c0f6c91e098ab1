"""Writes all files of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from llmprism.page.page import rendered
from prism_common.files import json_object, replacing, write_json
from prism_sim.operations import figures, results
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
    write(study, rows, windows, paths["page"], [*swept])
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
    write_json(paths["means"], data)
    paint.write_png(drawn, paths["figure"])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain values."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return found


# The page of a study: one self-contained file that needs no network.

_TERMS = {
    "ETTR": "effective training time ratio: work that was kept, divided by time",
    "detect, localise, recover": "mean times of a failure; replacing a wrong server does not "
    "help, and engineers search",
    "by hand": "interventions of people",
    "cost": "GPU-hours that false alarms cost",
    "lost": "GPU-hours without kept work, saving included",
    "closed form": "Daly's ETTR, if all failures were exponential and stopped the job for the mean "
    "time of the policy, and nothing ran slowly",
    "money": "price of lost GPU-hours and of standby servers",
    "bad hours": "part of the positions of a sliding hour at which less than 90 % count",
}


def _shown(cell: Any) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"


def write(
    study: Study,
    rows: list[dict[str, Any]],
    windows: list[dict[str, Any]],
    path: Path,
    swept: list[dict[str, Any]],
) -> None:
    """Write the page of ``rows``, all replications of ``study``, its windows and its sweep."""
    sweep = paint.svg(figures.draw_sweep(results.sweep_means(study, swept))) if swept else ""
    values = {**_values(study, rows), "windows": _windows(windows), "sweep": sweep}
    with replacing(path) as partial:
        partial.write_text(rendered("operations.html", values, "prism_sim.operations"), "utf-8")


def _values(study: Study, rows: list[dict[str, Any]]) -> dict[str, Any]:
    table = results.policies(study, rows)
    means = results.means(table)
    means = means.join(results.beside(study, means))
    seeds = table["seed"].nunique()
    return {
        "title": study.description or "Operations study",
        "facts": _facts(study, seeds),
        "seeds": seeds,
        "base": study.worth.of if study.worth else "",
        "worth": paint.svg(figures.draw_worth(results.worth(study, rows))) if study.worth else "",
        "left_out": results.left_out(study),
        "method": study.windows.method if study.windows else "",
        "policies": paint.svg(figures.draw(table)),
        "table": {
            "heads": _HEADS,
            "rows": [_cells(str(name), row) for name, row in means.iterrows()],
        },
        "differences": _differences(results.differences(table)),
        "terms": _TERMS.items(),
        "times": paint.svg(figures.draw_times(means)),
        "days": paint.svg(figures.draw_days(table)),
        "study": yaml.safe_dump(
            study.model_dump(mode="json", exclude={"failures": {"outages"}, "sweep": {"points"}}),
            sort_keys=False,
        ),
    }


def _facts(study: Study, seeds: int) -> str:
    gpus = study.servers * study.gpus_per_server
    hours = study.mttf_s / 3600
    return (
        f"a job on {gpus:,} GPUs of {study.servers:,} servers for {study.days:g} days; "
        f"it fails every {hours:.2g} h; {seeds} replications"
    )


_HEADS = (
    "policy", "ETTR [%]", "closed form [%]", "gain", "detect [s]", "localise [s]", "recover [s]",
    "by hand", "false alarms", "cost [GPU hours]", "lost [GPU hours]", "bad hours [%]",
    "standby servers", "money",
)  # fmt: skip


def _cells(name: str, row: pd.Series) -> list[str]:
    def number(key: str) -> str:
        return "-" if pd.isna(row[key]) else f"{row[key]:,.0f}"

    return [
        name,
        f"{100 * row['ettr']:.2f} ± {100 * row['ettr_half']:.2f}",
        f"{100 * row['closed_form']:.2f}",
        f"{100 * row['gain']:+.2f} ± {100 * row['gain_half']:.2f}",
        *(number(key) for key in ("detect_s", "localise_s", "recover_s", "by_hand")),
        f"{row['false_alarms']:.1f}",
        *(number(key) for key in ("false_alarm_gpu_hours", "lost_gpu_hours")),
        f"{100 * row['hours_below_90']:.1f}",
        *(number(key) for key in ("standby_servers", "money")),
    ]


def _differences(found: pd.DataFrame) -> dict[str, Any]:
    """A row for each policy, a column for each that comes before it."""
    records: list[dict[Any, Any]] = found.to_dict("records")
    names = list(dict.fromkeys(record["to"] for record in records))
    cells = {
        (each["policy"], each["to"]): f"{100 * each['difference']:+.2f} ± {100 * each['half']:.2f}"
        for each in records
    }
    rows = [
        [name, *(cells.get((name, base), "") for base in names)]
        for name in dict.fromkeys(record["policy"] for record in records)
    ]
    return {"heads": ["difference [%] of", *(f"to {name}" for name in names)], "rows": rows}


_OF_WINDOWS = (
    "window", "hour", "failure", "server", "assumed: detected after [s]", "detected by",
    "in the flows", "place", "found after [s]", "named cause", "named culprit", "right",
    "false alarms",
)  # fmt: skip


def _windows(windows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the policy assumes at each moment, beside what was found in the flows."""
    return {"heads": _OF_WINDOWS, "rows": [_window(row) for row in windows]}


def _window(row: dict[str, Any]) -> list[str]:
    who = {None: "-", True: "people", False: "programs"}[row["by_hand"]]
    right = {None: "-", True: "yes", False: "no"}[row["right"]]
    failure = row["failure"] or "none"
    shown = {"hour": f"{row['hour']:.1f}", "failure": failure, "by_hand": who, "right": right}
    values = {**row, **shown}
    return ["-" if value is None else _shown(value) for value in values.values()]
