"""A score in a few lines: the overview for terminal, page and notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from prism_common.quantities import duration, percent
from prism_sim.score.faults import FaultsScore
from prism_sim.score.stats import RelativeErrors
from prism_sim.score.timeline import TimelineFigures
from prism_sim.score.unanswered import JUDGED_BY, NOT_ANSWERED, is_unanswered

if TYPE_CHECKING:
    from prism_sim.score import Score


class Line(NamedTuple):
    """One line of the overview: subject, main figure, and remark."""

    subject: str
    figure: str
    remark: str


_SHOWN = ("jobs", "pairs", "parallelism", "timeline", "timeline", "faults")
"""The part of the score that each line is about."""

ERROR_COLUMNS = ("mean", "p50", "p95", "p99", "max", "bias", "all_mean")
"""Columns of :func:`error_rows`, with the terms of ``score.json``."""


def overview(score: Score) -> list[Line]:
    """The lines of the overview, in the order of an engineer's questions."""
    lines = [
        line._replace(figure=NOT_ANSWERED, remark=f"the method gave no table {_table_of(figure)}")
        if is_unanswered(figure, score.meta.left_out)
        else line
        for figure, line in zip(_SHOWN, _lines(score), strict=True)
    ]
    if score.meta.intake.get("set_aside"):
        lines.append(_set_aside_line(score.meta.intake))
    return lines


def _table_of(figure: str) -> str:
    return " or ".join(JUDGED_BY[figure.partition(".")[0]])


def _lines(score: Score) -> list[Line]:
    """The lines that say how good the answers are."""
    jobs, pairs, layout, timeline = score.jobs, score.pairs, score.parallelism, score.timeline
    return [
        Line("jobs", f"{jobs.exact} of {jobs.true} exact", f"{jobs.found} found"),
        Line(
            "pairs",
            f"{percent(pairs.accuracy)} of {pairs.total:,} correct",
            f"{percent(pairs.accuracy_unrefined)} before refinement, "
            f"{pairs.missing:,} missing, {pairs.spurious:,} spurious",
        ),
        Line(
            "groups",
            f"{percent(layout.groups_exact)} exact",
            f"DP {percent(layout.groups_exact_dp)}, PP {percent(layout.groups_exact_pp)}, "
            f"stage order {percent(layout.stage_order)}",
        ),
        Line(
            "steps",
            f"{percent(timeline.coverage)} of {timeline.steps_true:,} matched",
            f"{timeline.steps_split:,} split, {timeline.steps_merged:,} merged, "
            f"{timeline.steps_missed:,} missed",
        ),
        Line(
            "step error",
            f"{percent(timeline.step_error.mean, 2)} mean",
            f"{percent(timeline.step_error.all.mean, 2)} with unmatched steps as 100 %, "
            f"boundary error {duration(timeline.boundary_abs_error_ns.mean)}",
        ),
        _fault_line(score.faults),
    ]


def _fault_line(faults: FaultsScore) -> Line:
    rate = faults.false_alarms_per_1000_job_steps
    false = f"{faults.false_alarms:,} false alarms"
    false += "" if rate is None else f" ({rate:.1f} per 1,000 job-steps)"
    if not faults.injected:
        return Line("faults", "none injected", f"{faults.findings:,} findings, {false}")
    found = f"{percent(faults.localized_top1)} localized, precision {percent(faults.precision)}"
    return Line("faults", f"{faults.detected} of {faults.injected} detected", f"{found}, {false}")


def _set_aside_line(intake: dict[str, Any]) -> Line:
    reasons = [f"{count:,} {reason}" for reason, count in intake["set_aside"].items()]
    total = sum(intake["set_aside"].values())
    return Line("set aside", f"{total:,} of {intake['rows']:,} records", ", ".join(reasons))


def summary_lines(score: Score) -> list[str]:
    """The overview as plain lines, for logs."""
    return [f"{line.subject}: {line.figure} ({line.remark})" for line in overview(score)]


def error_rows(timeline: TimelineFigures) -> list[list[str]]:
    """Name and figures of each relative error of the timeline; names as in the JSON."""
    errors = {
        "step_error": timeline.step_error,
        "dp_end_error": timeline.dp_end_error,
        "dp_time_error": timeline.dp_time_error,
        "pp_time_error": timeline.pp_time_error,
        "compute_time_error": timeline.compute_time_error,
    }
    return [[name, *_error_cells(error)] for name, error in errors.items()]


def _error_cells(error: RelativeErrors) -> list[str]:
    values = (error.mean, error.p50, error.p95, error.p99, error.max, error.bias, error.all.mean)
    return [percent(value, 2) for value in values]


def score_html(score: Score) -> str:
    """Two tables for a notebook: the overview, and the errors of the timeline."""
    errors = error_rows(score.timeline)
    return _html_table(("score", "figure", "details"), overview(score)) + _html_table(
        ("relative error", *ERROR_COLUMNS), errors
    )


def _html_table(head: tuple[str, ...], rows: list[Any]) -> str:
    lines = [("th", head), *(("td", row) for row in rows)]
    body = "".join(
        "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row) + "</tr>"
        for tag, row in lines
    )
    return f"<table>{body}</table>"
