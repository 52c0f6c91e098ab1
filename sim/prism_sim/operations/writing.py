"""Writes all files of a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from llmprism.io.writing import replacing
from prism_sim.operations import figures, page, results, worth_figure
from prism_sim.operations.study import Study
from prism_sim.render import paint

FILES = {"table": "parquet", "means": "json", "figure": "png", "page": "html"}


def write_all(
    study: Study, rows: list[dict[str, Any]], folder: Path
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Write table, means, picture and page; returns the means, and the files by name."""
    paths = {name: folder / f"operations.{ending}" for name, ending in FILES.items()}
    table = results.policies(study, rows)
    means = results.means(table)
    nested = {name: table[name].map(json.dumps) for name in ("lost_by_cause", "ettr_by_day")}
    with replacing(paths["table"]) as partial:
        table.assign(**nested).to_parquet(partial, index=False)
    data = {
        "mttf_s": study.mttf_s,
        "policies": json.loads(means.to_json(orient="index")),
        "lost_gpu_hours": json.loads(results.lost_by_cause(table).to_json(orient="index")),
    }
    paint.write_png(figures.draw(table), paths["figure"])
    if study.worth:
        points = results.worth(study, rows)
        data["worth"] = _points(points)
        paths["worth"] = folder / "worth.png"
        paint.write_png(worth_figure.draw(points), paths["worth"])
    with replacing(paths["means"]) as partial:
        partial.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    page.write(study, rows, paths["page"])
    return means, {name: str(path) for name, path in paths.items()}


def _points(points: pd.DataFrame) -> list[dict[str, Any]]:
    """Means of the points of the curves; those of methods have a name."""
    keys = ["quality", "value", "localisation", "method"]
    ratios = points.groupby(keys, sort=False)["ettr"]
    means = ratios.mean().to_frame().assign(ettr_half=1.96 * ratios.sem()).reset_index()
    found: list[dict[str, Any]] = json.loads(means.to_json(orient="records"))
    return found
