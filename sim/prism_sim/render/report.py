"""The report: one self-contained page that needs no network.

It is the operator's page of :mod:`llmprism.page`, with a score if the truth is known, figures, and
the scenario. Figures are inline SVG that follow the reader's light or dark theme (a very dense
one becomes a PNG). The page is a pure function of the saved run: the same run gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from llmprism.page.page import as_text, content, cut, rendered, window
from llmprism.page.tables import Tables
from prism_common.files import replacing
from prism_common.quantities import percent
from prism_sim.render import look, paint
from prism_sim.render.figures import FIGURES
from prism_sim.render.logged import failures
from prism_sim.run_folder import Run
from prism_sim.score import Score, read_score
from prism_sim.score.summary import ERROR_COLUMNS, error_rows, overview

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

_LONG_SCENARIO = 60_000
_DENSE = 600_000  # characters of SVG
_FULL_WIDTH = 11  # inches of a figure as wide as the page; text is as large in narrower ones
_HEAD = 1000  # characters of a page that contain its mark


def render_report(
    run: Run,
    drawn: Mapping[str, Figure] | None = None,
    tables: Tables | None = None,
    logged: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write ``report.html``.

    Parameters
    ----------
    drawn : figures by name that exist already; the others are drawn here.
    tables : the tables of the run, if they are read already.
    logged : the failures in its logs, if they are known already.
    """
    values = _content(run, drawn or {}, tables or Tables.of(run.folder))
    values["logged"] = failures(run) if logged is None else logged
    page = rendered("report.html", values, "prism_sim.render")
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
    scenario = manifest.get("scenario") or {}
    own = content(tables, look.name_of(run))
    figures, empty = _figures(run, drawn)
    return own | {
        "description": scenario.get("description") or manifest.get("text") or "",
        "method": own["method"] or manifest.get("method"),
        "manifest": manifest,
        "scenario": scenario,
        "scenario_text": cut(as_text(scenario or manifest), _LONG_SCENARIO, "manifest.json"),
        "score": score,
        "score_mark": _score_mark(run),
        "tiles": _tiles(score) if score else own["tiles"],
        "overview": overview(score) if score else [],
        "error_columns": ERROR_COLUMNS,
        "errors": error_rows(score.timeline) if score else [],
        "faults": _faults(score),
        "findings": _alarms(own["findings"], score),
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
        caption = entry.caption if run.has_truth("steps") else entry.own_caption
        facts = {"name": name, "title": entry.title, "caption": caption}
        shown.append(facts | {"markup": _markup(made, entry.title)})
    return shown, empty


def _tiles(score: Score) -> list[dict[str, str]]:
    """The headline figures, each with its name."""
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


def _faults(score: Score | None) -> list[dict[str, Any]]:
    """The result for each fault."""
    if score is None:
        return []
    return [
        vars(match) | {"window": window(match.start_ns, match.end_ns)}
        for match in score.faults.matches
    ]


def _alarms(findings: list[dict[str, Any]], score: Score | None) -> list[dict[str, Any]]:
    """``findings``, each with whether it is true; None if that is not known."""
    known = score.faults.true_findings if score else None
    return [row | {"is_true": known and row["finding"] in known} for row in findings]


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
