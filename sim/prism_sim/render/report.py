"""The report: one page that holds everything, opens anywhere and needs no network.

Figures are inline SVG that follow the reader's light or dark theme (a very dense one
becomes a PNG), text comes from a jinja2 template with every value escaped, since names of
jobs are written by users. The page is a pure function of the saved run: the same run, the
same bytes.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from llmprism.io.writing import replacing
from llmprism.quantities import duration, percent
from prism_sim.render import look, paint
from prism_sim.render.figures import FIGURES
from prism_sim.run_folder import Run
from prism_sim.score import Score, read_score
from prism_sim.score.load import intake
from prism_sim.score.summary import ERROR_COLUMNS, error_rows, overview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

_FINDINGS = 40  # rows of the table; a method that cries wolf has thousands
_LONG_EVIDENCE = 2000  # characters
_LONG_SCENARIO = 60_000
_DENSE = 600_000  # characters of SVG


def render_report(run: Run, drawn: Mapping[str, Figure] | None = None) -> None:
    """Write ``report.html``.

    Parameters
    ----------
    drawn : figures by name where they exist already; the others are drawn here.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("prism_sim.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "duration": duration}
    page = environment.get_template("report.html").render(_content(run, drawn or {}))
    with replacing(run.report) as partial:
        partial.write_text(page, encoding="utf-8")


def _content(run: Run, drawn: Mapping[str, Figure]) -> dict[str, Any]:
    """Everything the template tells, as plain values."""
    score, manifest = read_score(run), look.json_of(run, "manifest")
    scenario = manifest.get("scenario") or {}
    return {
        "name": look.name_of(run),
        "description": scenario.get("description") or manifest.get("text") or "",
        "method": intake(run).get("method") or manifest.get("method"),
        "manifest": manifest,
        "scenario": scenario,
        "scenario_text": _text(scenario or manifest)[:_LONG_SCENARIO],
        "score": score,
        "tiles": _tiles(score),
        "overview": overview(score) if score else [],
        "error_columns": ERROR_COLUMNS,
        "errors": error_rows(score.timeline) if score else [],
        "faults": _faults(run, score),
        "findings": _findings(run, score),
        "findings_total": look.rows(run, "diagnosis", "findings"),
        "intake": intake(run),
        "figures": [
            {"name": name, "title": picture.title, "caption": picture.caption}
            | {"markup": _markup(drawn.get(name) or picture.draw(run), picture.title)}
            for name, picture in FIGURES.items()
        ],
    }


def _tiles(score: Score | None) -> list[dict[str, str]]:
    """The headline figures, each with what it is."""
    if score is None:
        return []
    timeline, faults, jobs = score.timeline, score.faults, score.jobs
    found = f"{faults.detected} / {faults.injected}" if faults.injected else "none"
    tiles = [
        (f"{jobs.exact} / {jobs.true}", "jobs exact"),
        (percent(score.pairs.accuracy), "pairs correct"),
        (percent(timeline.coverage), "steps matched"),
        (percent(timeline.step_error.mean, 2), "mean step error"),
        (found, "faults detected" if faults.injected else "fault injected"),
        (f"{faults.false_alarms:,}", "false alarms"),
    ]
    return [{"figure": figure, "label": label} for figure, label in tiles]


def _faults(run: Run, score: Score | None) -> list[dict[str, Any]]:
    """What became of each fault, with times in seconds since the first step."""
    if score is None:
        return []
    origin = look.origin_ns(run)
    return [
        vars(match) | {"window": _window(match.start_ns, match.end_ns, origin)}
        for match in score.faults.matches
    ]


def _findings(run: Run, score: Score | None) -> list[dict[str, Any]]:
    """The most confident findings, the strongest first among equals."""
    table = look.diagnosis(run, "findings")
    table = table.assign(size=table["magnitude"].abs())
    table = table.sort_values(["confidence", "size", "finding"], ascending=[False, False, True])
    known = score.faults.true_findings if score else None
    origin = look.origin_ns(run)
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        | {
            "window": _window(row["start_ns"], row["end_ns"], origin),
            "evidence": _pretty(row["evidence"]),
            "verdict": None if known is None else row["finding"] in known,
        }
        for row in table.head(_FINDINGS).to_dict("records")
    ]


def _window(start_ns: Any, end_ns: Any, origin: int) -> str:
    borders = [
        "?" if value is None or pd.isna(value) else f"{(value - origin) / 1e9:,.2f}"
        for value in (start_ns, end_ns)
    ]
    return f"{borders[0]} - {borders[1]} s"


def _pretty(evidence: Any) -> str:
    try:
        text = _text(json.loads(str(evidence)))
    except ValueError:
        text = "" if pd.isna(evidence) else str(evidence)
    return text if len(text) <= _LONG_EVIDENCE else f"{text[:_LONG_EVIDENCE]} ..."


def _text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) if content else ""


def _markup(made: Figure, title: str) -> str:
    """The figure as trusted markup: its text is drawn as shapes, so no name gets into the page."""
    from markupsafe import Markup, escape

    vector = paint.svg(made)
    if len(vector) <= _DENSE:
        labelled = f'<svg role="img" aria-label="{escape(title)}"'
        return Markup(vector.replace("<svg", labelled, 1))
    data = base64.b64encode(paint.png(made)).decode()
    return Markup(f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">')
