"""A diagnosis on a terminal: jobs with their servers, findings, and what was judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.part_names import condensed
from prism_common.command import PLAIN_WIDTH
from prism_common.escapes import printable, printable_values
from prism_common.kinds import AXES, OTHER, UNKNOWN
from prism_common.quantities import duration, known_size, percent, shortened

if TYPE_CHECKING:
    from rich.table import Table

    from llmprism.diagnosis import Diagnosis

_SPELLED = 5  # findings put into words below the table
_SHOWN = 20  # findings shown in the table; all are in --json and --out
_LAYOUT = " ".join(AXES)  # the head of a column of their sizes
_JOBS_LISTED = 40  # jobs whose servers are listed

LOST = {
    "slow_passes": "of speed",
    "slow_transfers": "of rate",
    "fewer_uplinks": "of rate",
    "other_traffic": "of rate",
    "slow_saves": "of rate",
}
"""What a finding's magnitude is a share of, by symptom."""


def print_diagnosis(diagnosis: Diagnosis, topology: Path) -> None:
    """Print the tables of jobs and findings, the findings in words, and the conclusion."""
    from rich.console import Console

    summary = printable_values(diagnosis.summary())
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console = Console(width=width, markup=False, highlight=False)
    if summary["jobs"]:
        console.print(jobs_table(diagnosis, summary["jobs"]))
        for line in servers_of_jobs(summary["jobs"]):
            console.print(line)
    else:
        unanswered = "jobs" in diagnosis.left_out
        what = "Which jobs there are is not answered" if unanswered else "No job was found"
        console.print(f"{what} (method {diagnosis.method}).")
    if summary["findings"]:
        console.print(findings_table(summary["findings"], diagnosis.method))
        for sentence in spelled(diagnosis, topology):
            console.print(printable(sentence))
    for line in summary["conclusion"]:
        console.print(line)


def spelled(diagnosis: Diagnosis, topology: Path) -> list[str]:
    """The first findings in words, numbered, each with what to do next.

    There are none if the topology was read from a pipe.
    """
    if not topology.is_file():
        return []
    texts = diagnosis.texts(json.loads(topology.read_text(encoding="utf-8")))
    numbers = diagnosis.findings["finding"].tolist()
    more = len(texts) - _SPELLED
    rest = [f"{more} more: see --out, --json, or the page of llmprism report"] if more > 0 else []
    shown = zip(numbers[:_SPELLED], texts, strict=False)
    lines = [[f"{number}. {text.short}", f"   Do next: {text.next}"] for number, text in shown]
    return [line for both in lines for line in both] + rest


def servers_of_jobs(jobs: list[dict[str, Any]]) -> list[str]:
    """A line for each job: its servers, in ranges."""
    lines = [
        f"{job['name'] or job['job']}: {len(job['servers'])} servers: {condensed(job['servers'])}"
        for job in jobs[:_JOBS_LISTED]
        if job["servers"]
    ]
    more = len(jobs) - _JOBS_LISTED
    return [*lines, f"{more} more jobs: see --json or --out"] if more > 0 else lines


def jobs_table(diagnosis: Diagnosis, jobs: list[dict[str, Any]]) -> Table:
    """Return one row per job; steps that the records do not support are not shown."""
    doubted = {job["job"]: bool(diagnosis.verdict.doubted(job["job"])) for job in jobs}
    rows = [
        [
            f"{job['job']}\n{job['name']}" if job["name"] else job["job"],
            str(job["addresses"]),
            ", ".join(f"{count} {kind}" for kind, count in _training_first(job["pairs"])),
            " ".join(f"{_size(job['layout'], axis):>2}" for axis in AXES),
            _size(job["layout"], "micro_batches"),
            _sure(job["layout"]),
            "?" if doubted[job["job"]] else str(job["steps"]),
            "?" if doubted[job["job"]] else duration(job["step_median_s"] * 1e9),
        ]
        for job in jobs
    ]
    heads = ["job", "NICs", "pairs", _LAYOUT, "micro-\nbatches", "sure", "steps", "median\nstep"]
    return _table(f"Jobs (method {diagnosis.method})", heads, rows)


def _training_first(pairs: dict[str, int]) -> list[tuple[str, int]]:
    """Numbers of pairs by kind; those that carry no training data come last."""
    return sorted(pairs.items(), key=lambda one: (one[0] in (OTHER, UNKNOWN), one[0]))


def _size(layout: dict[str, Any], name: str) -> str:
    return known_size(layout.get(name), layout.get("confidence"))


def _sure(layout: dict[str, Any]) -> str:
    return percent(layout["confidence"], 0) if layout else "-"


def findings_table(found: list[dict[str, Any]], method: str) -> Table:
    """Return one row per finding. Its magnitude is what the method says it is (`Finding`)."""
    lost = method in ("prism", "collectives")
    rows = [
        [
            str(one["finding"]),
            one["symptom"] if one["cause"] == "unknown" else f"{one['symptom']}\n{one['cause']}",
            "\n".join([one["job"], *one["evidence"].get("further_jobs", [])]),
            _culprit(one),
            f"{one['first_step']}-{one['last_step']}",
            _lost(one) if lost else f"{shortened(one['magnitude'])}x",
            duration(one["cost"]),
            percent(one["confidence"], 0),
        ]
        for one in found[:_SHOWN]
    ]
    size = "lost" if lost else "to normal"
    heads = ["", "symptom, cause", "job", "culprit", "steps", size, "cost", "sure"]
    more = f", first {_SHOWN} of {len(found)}" if len(found) > _SHOWN else ""
    return _table(f"Findings{more}", heads, rows)


def _lost(finding: dict[str, Any]) -> str:
    """What the culprit lost: a share of its speed of computation, or of its rate."""
    share = percent(finding["magnitude"], 0)
    return "\n".join(filter(None, [share, LOST.get(finding["symptom"], "")]))


def _culprit(finding: dict[str, Any]) -> str:
    """Return the culprit's name, or the number of affected addresses if none is localised."""
    evidence = finding["evidence"]
    if finding["culprit_kind"] == "job" and {"affected", "of"} <= evidence.keys():
        return f"{evidence['affected']} of {evidence['of']} addresses, not localised"
    return str(finding["culprit"])


def _table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    from rich.text import Text

    look: dict[str, Any] = {"title": Text(title), "title_justify": "left", "padding": (0, 1, 0, 0)}
    table = empty_table(**look)
    for head in heads:
        table.add_column(head, overflow="fold", no_wrap=head == _LAYOUT)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def empty_table(**look: Any) -> Table:
    """A table as all programs print them; its cells are plain text if they are ``Text``."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, **look)
