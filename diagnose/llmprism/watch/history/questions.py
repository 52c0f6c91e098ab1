"""Questions about the history, as SQL that DuckDB runs on its files."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import duckdb
import pandas as pd

from llmprism.watch.history.recording import TABLES
from prism_common.errors import Problem, UserError

_INCIDENTS = """
    select incident, arg_max(place, number) as place, arg_max(alertname, number) as alertname,
           arg_max(job, number) as job, arg_max(severity, number) as severity,
           min("startsAt") as since, arg_max(event, number) as stage,
           max(gpu_hours) as gpu_hours, max(confidence) as confidence,
           arg_max(summary, number) as summary
    from findings group by incident
"""
QUESTIONS: dict[str, tuple[str, str]] = {
    "culprits": (
        "which server, switch or link was the culprit most often",
        f"""select place, count(*) as incidents, sum(gpu_hours) as gpu_hours,
                   string_agg(distinct alertname, ', ' order by alertname) as causes,
                   string_agg(distinct job, ', ' order by job) as jobs
            from ({_INCIDENTS}) group by place order by incidents desc, gpu_hours desc, place""",
    ),
    "findings": (
        "each incident, the latest first",
        f"""select since, stage, severity, alertname, place, job, gpu_hours, confidence, summary
            from ({_INCIDENTS}) order by since desc, incident""",
    ),
    "jobs": (
        "the steps of each job",
        """select job, min(step) as first_step, max(step) as last_step,
                  make_timestamp_ns(min(start_ns)) as since,
                  make_timestamp_ns(max(end_ns)) as until,
                  median(end_ns - start_ns) / 1e9 as step_s, max(ranks) as ranks
           from steps group by job order by since, job""",
    ),
    "layouts": (
        "servers and layouts of the jobs, as they changed",
        """select make_timestamp_ns(time_ns) as time, job, servers, gpus, layout, confidence
           from layouts order by time, job""",
    ),
}


def answer(state: Path, question: str, days: int) -> pd.DataFrame:
    """Answer one of :data:`QUESTIONS` about the last ``days`` that the history has.

    Raises
    ------
    UserError : there is no history in the folder of the monitor.
    """
    folder = state / "history"
    every = sorted(path.name for path in folder.glob("*/day=*"))
    if not every:
        how = "name the folder that llmprism watch --state has written"
        raise UserError(Problem("there is no history here", str(state), how))
    last = date.fromisoformat(every[-1].removeprefix("day="))
    first = (last - timedelta(days=days - 1)).isoformat()
    connection = duckdb.connect()
    for name, schema in TABLES.items():
        connection.register(name, _rows(connection, folder / name, schema.names, first))
    found: pd.DataFrame = connection.sql(QUESTIONS[question][1]).df()
    return found


def _rows(
    connection: duckdb.DuckDBPyConnection, folder: Path, names: list[str], first: str
) -> pd.DataFrame:
    """The distinct rows of a table since a day."""
    columns = ", ".join(f'"{name}"' for name in names)
    paths = [
        str(path)
        for path in folder.glob("day=*/*.parquet")
        if path.parent.name.removeprefix("day=") >= first
    ]
    if not paths:
        return pd.DataFrame(columns=names)
    read = "select distinct {} from read_parquet($paths, hive_partitioning=false)"
    found: pd.DataFrame = connection.execute(read.format(columns), {"paths": paths}).df()
    return found
