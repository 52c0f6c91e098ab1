"""What logs and flows of a simulated job show: the failure, who only reported it, llmlog's answer.

Lines of one rank and one kind count as one report, at the time of the first. Reports of benign
lines and of jobs that were drawn are left out.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from llmlog.diagnosis import Failure, diagnose
from llmlog.flows import ROLE as FLOWS_ROLE
from llmlog.flows import Flows
from llmlog.reading import find_jobs
from llmlog.streams import Intake
from llmprism.page.page import window
from prism_common.errors import UserError
from prism_sim.render import look
from prism_sim.run_folder import Run

ROLES = ("indicator", "cascade", "teardown")
"""Roles of reports, from the failure itself to what follows from it."""

_REMEDIES = {
    "hardware": "take the node out, test its parts, and restart from the last checkpoint",
    "platform": "restart from the last checkpoint; repair the service or the node",
    "user": "correct the program or its data before the next start",
    "framework": "report the error to the framework, and restart from the last checkpoint",
}


def reports(run: Run) -> pd.DataFrame:
    """The reports of simulated jobs: job, node, rank, role, event, time_ns, lines; by time."""
    jobs, lines = look.logs_truth(run, "logs_jobs"), look.logs_truth(run, "logs_lines")
    simulated = jobs[jobs["simulated_job"].notna()]["job"]
    shown = lines[lines["job"].isin(simulated) & lines["role"].isin(ROLES)]
    keys = ["job", "node", "rank", "role", "event"]
    grouped = shown.groupby(keys, dropna=False, observed=True)["time_ns"]
    return grouped.agg(time_ns="min", lines="size").reset_index().sort_values("time_ns")


def failures(run: Run) -> list[dict[str, Any]]:
    """A row for each failure of a simulated job."""
    table = look.logs_truth(run, "logs_failures")
    found = reports(run)
    own = table[table["job"].isin(found["job"]) | table["flow_fault"].notna()]
    if own.empty:
        return []
    answers = _answers(run, set(own["job"]))
    rows = own.to_dict("records")
    return [_failure(row, found) | {"answer": answers.get(row["job"], "nothing")} for row in rows]


def _answers(run: Run, jobs: set[str]) -> dict[str, str]:
    """What ``llmlog`` finds in the logs of each job and the run's diagnosis of flows."""
    found = {}
    chosen = [job for job in find_jobs([run.logs]) if job.name in jobs]
    for evidence, failure in diagnose(chosen, Intake(), _flows(run)):
        if failure is not None:
            found[evidence.job.name] = _sentence(failure)
    return found


def _flows(run: Run) -> Flows | None:
    """What the run's diagnosis tells; None if it has none, or not these columns."""
    try:
        return Flows.read(run.folder / "diagnosis")
    except UserError:
        return None


def _sentence(failure: Failure) -> str:
    ranks = ", ".join(map(str, failure.ranks[:4])) + (", ..." if len(failure.ranks) > 4 else "")
    parts = [
        failure.stage,
        f"rank {ranks}" if ranks else "",
        f"on {failure.nodes[0]}" if failure.nodes else "",
        f"at iteration {failure.iteration}" if failure.iteration is not None else "",
    ]
    causes = " or ".join(name.replace("_", " ") for name in failure.causes)
    silent = "".join(f"; {event.text}" for event in failure.events if event.role == FLOWS_ROLE)
    return " ".join(part for part in parts if part) + (f": {causes}" if causes else "") + silent


def _failure(row: dict[Any, Any], found: pd.DataFrame) -> dict[str, Any]:
    mine = found[found["job"] == row["job"]]
    begin_ns, rank = int(row["begin_ns"]), row["rank"]
    others = mine[(mine["role"] == "cascade") & mine["rank"].notna() & (mine["rank"] != rank)]
    place = "" if pd.isna(rank) else f"rank {int(rank)} on {row['node']}"
    return {
        "job": row["job"],
        "kind": row["kind"],
        "category": row["category"],
        "place": place,
        "begin_ns": begin_ns,
        "end_ns": int(row["end_ns"]),
        "window": window(begin_ns, int(row["end_ns"])),
        "iteration": None if pd.isna(row["iteration"]) else int(row["iteration"]),
        "shown_after_s": _seconds(row["reported_ns"], begin_ns),
        "others_after_s": _seconds(others["time_ns"].min(), begin_ns),
        "others": int(others["rank"].nunique()),
        "remedy": _REMEDIES[row["category"]],
    }


def _seconds(time_ns: Any, begin_ns: int) -> float | None:
    return None if pd.isna(time_ns) else (int(time_ns) - begin_ns) / 1e9
