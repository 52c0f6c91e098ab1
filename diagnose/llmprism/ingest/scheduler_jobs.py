"""Reads which jobs a scheduler ran where and when: Slurm's JSON, a CSV, or pods of Kubernetes.

``sacct --json`` and ``squeue --json`` write an object ``jobs`` with name, nodes and times in
seconds since the epoch. Newer versions wrap a number as ``{"set": true, "number": 5}``, and 0 is a
time that has not come. A CSV has the columns job, servers, begin, end: servers as Slurm writes
them (``gpu[01-04]``) or separated by spaces, times in seconds or as ISO 8601 (UTC without a zone).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmprism.ingest.kubernetes_jobs import is_list_of_pods, jobs_of_pods
from llmprism.ingest.network.slurm import expanded
from llmprism.io.sources import read_text
from llmprism.job_names import ScheduledJob
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 28
_COLUMNS = ("job", "servers", "begin", "end")
_FORMS = (
    "give the output of sacct --json, squeue --json or kubectl get pods -A -o json, or a CSV of "
    "job, servers, begin, end"
)


def read_names(path: Path) -> list[ScheduledJob]:
    """Read the jobs of a scheduler.

    Raises
    ------
    UserError : the file has another form, or a time or a list of servers cannot be read.
    """
    text = read_text(path, _LIMIT_BYTES, _FORMS)
    if not text.lstrip().startswith(("{", "[")):
        rows = list(_of_csv(text, path))
    else:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(Problem(f"not valid JSON: {error}", str(path), _FORMS)) from error
        if is_list_of_pods(content):
            return jobs_of_pods(content)
        rows = list(_of_slurm(content, path))
    found, problems = [], []
    for number, (name, servers, begin, end) in rows:
        try:
            names = frozenset(n for part in servers.split() for n in expanded(part))
            found.append(ScheduledJob(name, names, _time_ns(begin), _time_ns(end)))
        except ValueError as error:
            problems.append(Problem(str(error), f"{path}:{number}", _FORMS))
    if problems:
        raise UserError(problems[:50])
    return found


Row = tuple[int, tuple[str, str, Any, Any]]
"""Number of a row, and its name, servers, begin and end."""


def _of_slurm(content: Any, path: Path) -> Iterator[Row]:
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, list):
        raise UserError(Problem("there is no list of jobs", str(path), _FORMS))
    for number, job in enumerate(jobs):
        nodes = job.get("nodes") if isinstance(job, Mapping) else None
        if isinstance(nodes, str) and nodes and nodes != "None assigned":
            time = job.get("time")
            times = time if isinstance(time, Mapping) else {}
            begin = times.get("start", job.get("start_time"))
            end = times.get("end", job.get("end_time"))
            yield number, (f"{job.get('name')} ({job.get('job_id')})", nodes, begin, end)


def _of_csv(text: str, path: Path) -> Iterator[Row]:
    rows = csv.DictReader(io.StringIO(text))
    lacking = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
    if lacking:
        what = f"the columns {', '.join(lacking)} are missing"
        raise UserError(Problem(what, f"{path}:1", _FORMS))
    for row in rows:
        values = {name: (row[name] or "").strip() for name in _COLUMNS}
        yield rows.line_num, (values["job"], values["servers"], values["begin"], values["end"])


def _time_ns(value: Any) -> int | None:
    """A time since the epoch [ns]; None if it is not set."""
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") else None
    if value in (None, "", 0, "0", "Unknown", "None"):
        return None
    try:
        return round(float(value) * 1e9)
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is no time") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e9)
