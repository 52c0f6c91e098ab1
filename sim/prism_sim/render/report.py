"""The report: one self-contained page that needs no network.

It begins with the answers for an operator (:mod:`~prism_sim.render.answers`): sentences, and charts
that a script in the page draws. A score follows if the truth is known.
Figures are inline SVG that follow the reader's light or dark theme (a very dense one becomes a
PNG). Text comes from a jinja2 template that escapes every value, since users choose the names of
jobs. The page is a pure function of the saved run: the same run gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from llmprism.io.writing import replacing
from llmprism.quantities import duration, percent
from prism_sim.render import look, paint
from prism_sim.render.answers import answers
from prism_sim.render.figures import FIGURES
from prism_sim.render.found import found_jobs, utc
from prism_sim.render.tables import Tables
from prism_sim.run_folder import Run
from prism_sim.score import Score, read_score
from prism_sim.score.summary import ERROR_COLUMNS, error_rows, overview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

_FINDINGS = 40  # rows of the table; a method with many false alarms has thousands
_LONG_EVIDENCE = 2000  # characters
_LONG_SCENARIO = 60_000
_DENSE = 600_000  # characters of SVG
_FULL_WIDTH = 11  # inches of a figure as wide as the page; text is as large in narrower ones
_HEAD = 1000  # characters of a page that contain its mark


def render_report(
    run: Run, drawn: Mapping[str, Figure] | None = None, tables: Tables | None = None
) -> None:
    """Write ``report.html``.

    Parameters
    ----------
    drawn : figures by name that exist already; the others are drawn here.
    tables : the tables of the run, if they are read already.
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
    page = environment.get_template("report.html").render(
        _content(run, drawn or {}, tables or Tables.of(run))
    )
    with replacing(run.report) as partial:
        partial.write_text(page, encoding="utf-8")


def shows_another_score(run: Run) -> bool:
    """Whether the report of ``run`` exists and shows another score than the saved one."""
    if not run.report.exists():
        return False
    with run.report.open(encoding="utf-8", errors="replace") as page:
        return f'name="score" content="{_score_mark(run)}"' not in page.read(_HEAD)


def _score_mark(run: Run) -> str:
    """A digest of ``score.json`` that identifies the score in a report."""
    if not run.score.exists():
        return "none"
    return hashlib.blake2b(run.score.read_bytes(), digest_size=12).hexdigest()


def _content(run: Run, drawn: Mapping[str, Figure], tables: Tables) -> dict[str, Any]:
    """Everything that the template shows, as plain values."""
    score, manifest = read_score(run), look.json_of(run, "manifest")
    scenario, intake = manifest.get("scenario") or {}, look.intake(run)
    figures, empty = _figures(run, drawn)
    return {
        "name": look.name_of(run),
        "description": scenario.get("description") or manifest.get("text") or "",
        "method": intake.get("method") or manifest.get("method"),
        "manifest": manifest,
        "observed": _observed(tables),
        "answers": answers(tables),
        "scenario": scenario,
        "scenario_text": _cut(_text(scenario or manifest), _LONG_SCENARIO, "manifest.json"),
        "score": score,
        "score_mark": _score_mark(run),
        "tiles": _tiles(score) if score else _diagnosis_tiles(run),
        "overview": overview(score) if score else [],
        "error_columns": ERROR_COLUMNS,
        "errors": error_rows(score.timeline) if score else [],
        "faults": _faults(run, score),
        "jobs": found_jobs(run),
        "findings": _findings(run, score),
        "findings_total": look.rows(run, "diagnosis", "findings"),
        "intake": intake,
        "figures": figures,
        "not_drawn": empty,
    }


def _figures(run: Run, drawn: Mapping[str, Figure]) -> tuple[list[dict[str, Any]], list[str]]:
    """Every figure with content, and the reasons why others are empty."""
    shown, empty = [], []
    for name, entry in FIGURES.items():
        made = drawn.get(name) or entry.draw(run)
        reason = paint.why_empty(made)
        if reason is not None:
            empty.append(reason)
            continue
        facts = {"name": name, "title": entry.title, "caption": entry.caption}
        shown.append(facts | {"markup": _markup(made, entry.title)})
    return shown, empty


def _observed(tables: Tables) -> dict[str, str] | None:
    """Start, end and duration of the flow records, in UTC."""
    flows = tables.flows
    if not len(flows):
        return None
    first, last = int(flows["start_ns"].min()), int(flows["end_ns"].max())
    return {"from": utc(first), "to": utc(last), "lasting": duration(last - first)}


def _tiles(score: Score | None) -> list[dict[str, str]]:
    """The headline figures, each with its name."""
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


def _diagnosis_tiles(run: Run) -> list[dict[str, str]]:
    """The headline figures of a diagnosis that has no score."""
    jobs, steps = look.diagnosis(run, "jobs"), look.diagnosis(run, "steps")
    if not len(jobs):
        return []
    counts = [
        (jobs["job"].nunique(), "jobs found"),
        (jobs["address"].nunique(), "addresses in jobs"),
        (look.rows(run, "diagnosis", "pairs"), "communicating pairs"),
        (int(steps.groupby("job")["step"].nunique().sum()), "steps"),
        (look.rows(run, "diagnosis", "findings"), "findings"),
    ]
    return [{"figure": f"{count:,}", "label": label} for count, label in counts]


def _faults(run: Run, score: Score | None) -> list[dict[str, Any]]:
    """The result for each fault, with times in seconds since the first step."""
    if score is None:
        return []
    origin = look.origin_ns(run)
    return [
        vars(match) | {"window": _window(match.start_ns, match.end_ns, origin)}
        for match in score.faults.matches
    ]


def _findings(run: Run, score: Score | None) -> list[dict[str, Any]]:
    """The most confident findings; among equals, those of the largest effect first."""
    table = look.diagnosis(run, "findings")
    table = table.assign(size=table["magnitude"].abs())
    table = table.sort_values(["confidence", "size", "finding"], ascending=[False, False, True])
    known = score.faults.true_findings if score else None
    origin = look.origin_ns(run)
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        | {
            "window": _window(row["start_ns"], row["end_ns"], origin),
            "start": None if pd.isna(row["start_ns"]) else utc(int(row["start_ns"])),
            "evidence": _pretty(row["evidence"]),
            "is_true": None if known is None else row["finding"] in known,
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
    return _cut(text, _LONG_EVIDENCE, "diagnosis/findings.parquet")


def _cut(text: str, length: int, file: str) -> str:
    """``text``, or its beginning and the place of the rest."""
    if len(text) <= length:
        return text
    return f"{text[:length]}\n... the first {length:,} of {len(text):,} characters; all: {file}"


def _text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) if content else ""


def _markup(made: Figure, title: str) -> str:
    """The figure as trusted markup: its text is drawn as shapes, so names need no escaping."""
    from markupsafe import Markup, escape

    vector = paint.svg(made)
    if len(vector) <= _DENSE:
        width = min(100, round(100 * made.get_figwidth() / _FULL_WIDTH))
        labelled = f'<svg role="img" style="max-width: {width}%" aria-label="{escape(title)}"'
        return Markup(vector.replace("<svg", labelled, 1))
    data = base64.b64encode(paint.png(made)).decode()
    return Markup(f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">')
