"""The score on a terminal: what a platform engineer asks first, in the order of asking.

Were the jobs found, is the traffic understood, can the timeline be trusted, were the faults
found and blamed on the right thing, and was anything left out of account?
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prism_sim.render.look import duration, percent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Score = dict[str, Any]

ERRORS = {
    "step_error": "step duration",
    "dp_end_error": "DP end to DP end",
    "dp_time_error": "DP time in a step",
    "pp_time_error": "PP time in a step",
    "compute_time_error": "computation in a step",
}
"""Relative errors of the timeline and what they are called."""

_FIGURES = ("mean", "p50", "p95", "p99", "max", "bias", "all_mean")


def score_table(score: Score) -> RenderableType:
    """Tables for a terminal; names from scenarios are shown as they are, never as markup."""
    from rich.console import Group

    parts: list[RenderableType] = [_overview(score), _errors(score["timeline"])]
    if score["faults"]["matches"]:
        parts.append(_faults(score["faults"]))
    return Group(*parts)


def overview(score: Score) -> list[tuple[str, str, str]]:
    """Subject, figure and remark, all in words, of each line of the overview."""
    jobs, pairs, layout = (score[part] for part in ("jobs", "pairs", "parallelism"))
    timeline, faults = score["timeline"], score["faults"]
    rows = [
        (
            "jobs",
            f"{jobs['exact']} of {jobs['true']} exact",
            f"{jobs['found']} found",
        ),
        (
            "pair types",
            f"{percent(pairs['accuracy'])} of {pairs['total']:,} right",
            f"{percent(pairs['accuracy_unrefined'])} before refinement, "
            f"{pairs['missing']:,} missing, {pairs['spurious']:,} spurious",
        ),
        (
            "groups",
            f"{percent(layout['groups_exact'])} exact",
            f"DP {percent(layout['groups_exact_dp'])}, pipelines "
            f"{percent(layout['groups_exact_pp'])}, stage order {percent(layout['stage_order'])}",
        ),
        (
            "steps",
            f"{percent(timeline['coverage'])} of {timeline['steps_true']:,} matched",
            f"{timeline['steps_split']:,} split, {timeline['steps_merged']:,} merged, "
            f"{timeline['steps_missed']:,} missed",
        ),
        (
            "step duration",
            f"{percent(timeline['step_error_mean'], 2)} mean error",
            f"{percent(timeline['step_error_all_mean'], 2)} with unmatched steps as 100 %; ends "
            f"off by {duration(timeline['boundary_abs_error_ns_mean'])}",
        ),
        _fault_row(faults),
    ]
    intake = score["meta"].get("intake")
    if intake and intake.get("set_aside"):
        rows.append(_intake_row(intake))
    return rows


def _fault_row(faults: Score) -> tuple[str, str, str]:
    rate = faults["false_alarms_per_1000_job_steps"]
    false = f"{faults['false_alarms']:,} false alarms"
    false += "" if rate is None else f" ({rate:.1f} in 1,000 job-steps)"
    if not faults["injected"]:
        return "faults", "none injected", f"{faults['findings']:,} findings, {false}"
    told = (
        f"{percent(faults['localized_top1'])} localised, precision {percent(faults['precision'])}"
    )
    return "faults", f"{faults['detected']} of {faults['injected']} detected", f"{told}, {false}"


def _intake_row(intake: Score) -> tuple[str, str, str]:
    reasons = [f"{count:,} {reason}" for reason, count in intake["set_aside"].items()]
    total = sum(intake["set_aside"].values())
    return "set aside", f"{total:,} of {intake['rows']:,} records", ", ".join(reasons)


def summary_lines(score: Score) -> list[str]:
    """The overview as plain lines, for logs."""
    return [f"{subject}: {figure} ({remark})" for subject, figure, remark in overview(score)]


def error_rows(timeline: Score) -> list[list[str]]:
    """Name and figures of each relative error of the timeline, in words."""
    return [
        [name, *(percent(timeline[f"{key}_{figure}"], 2) for figure in _FIGURES)]
        for key, name in ERRORS.items()
    ]


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place == 0 else "right")
    return made


def _overview(score: Score) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("score", "figure", "and"):
        made.add_column(column)
    for subject, figure, remark in overview(score):
        warn = subject == "set aside"
        made.add_row(subject, Text(figure, style="yellow" if warn else "bold"), Text(remark))
    return made


def _errors(timeline: Score) -> Table:
    made = _table("relative error", *ERROR_COLUMNS)
    for row in error_rows(timeline):
        made.add_row(*row)
    return made


ERROR_COLUMNS = ("mean", "p50", "p95", "p99", "max", "bias", "mean, all steps")
"""What the columns of :func:`error_rows` are."""


def _faults(faults: Score) -> Table:
    from rich.text import Text

    made = _table("fault", "culprit", "alarms", "localised", "steps to detect")
    for match in faults["matches"]:
        delay = match["steps_to_detect"]
        made.add_row(
            Text(match["kind"]),
            Text(match["culprit"] or "?"),
            Text(f"{match['alarms']:,}" if match["detected"] else "none: missed"),
            "yes" if match["localized"] else "no",
            "-" if delay is None else str(delay),
            style="" if match["detected"] else "red",
        )
    return made
