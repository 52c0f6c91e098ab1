"""The score on a terminal, in the order of a platform engineer's questions.

Were the jobs found? Were the pairs classified correctly? Is the timeline accurate? Were the faults
found and the right culprits named? Were records set aside? Every table fits 80 columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmprism.terminal import empty_table
from prism_sim.score import Score
from prism_sim.score.faults import FaultsScore
from prism_sim.score.summary import ERROR_COLUMNS, error_rows, overview
from prism_sim.score.timeline import TimelineFigures

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def score_table(score: Score) -> RenderableType:
    """Tables for a terminal; names from scenarios are printed literally, never as markup."""
    from rich.console import Group

    parts: list[RenderableType] = [_overview(score), _errors(score.timeline)]
    if score.faults.matches:
        parts.append(_faults(score.faults))
    return Group(*parts)


def _table(*columns: str) -> Table:
    """An empty table; numbers after the first column are right-aligned."""
    made = empty_table(padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    return made


def _overview(score: Score) -> Table:
    from rich.text import Text

    made = empty_table(padding=(0, 1, 0, 0))
    made.add_column("score", no_wrap=True)
    made.add_column("figure", no_wrap=True)
    made.add_column("details", overflow="fold")
    for line in overview(score):
        warn = line.subject == "set aside"
        style = "yellow" if warn else "bold"
        made.add_row(line.subject, Text(line.figure, style=style), Text(line.remark))
    return made


def _errors(timeline: TimelineFigures) -> Table:
    made = _table("relative error", *ERROR_COLUMNS)
    for row in error_rows(timeline):
        made.add_row(*(cell.replace(" %", "%") for cell in row))
    return made


def _faults(faults: FaultsScore) -> Table:
    from rich.text import Text

    made = _table("fault", "culprit", "alarms", "localized", "steps_to_detect")
    for match in faults.matches:
        delay = match.steps_to_detect
        made.add_row(
            Text(match.kind),
            Text(match.culprit or "?"),
            Text(f"{match.alarms:,}" if match.detected else "not detected"),
            "yes" if match.localized else "no",
            "-" if delay is None else str(delay),
            style="" if match.detected else "red",
        )
    return made
