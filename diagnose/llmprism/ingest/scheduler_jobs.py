"""Reads which jobs a scheduler ran where and when: Slurm's JSON, a CSV, or pods of Kubernetes.

``sacct --json`` and ``squeue --json`` write an object ``jobs`` with name, nodes and times in
seconds since the epoch. Newer versions wrap a number as ``{"set": true, "number": 5}``, and 0 is a
time that has not come. A CSV has the columns job, servers, begin, end: servers as Slurm writes
them (``gpu[01-04]``) or separated by spaces, times in seconds or as ISO 8601 (UTC without a zone).
It may have the columns dp, pp, tp, ep and cp: sizes of a job's layout, empty where unknown.

``kubectl get pods -A -o json`` and the API (``GET /api/v1/pods``) give a list of pods. Operators
for training label the pods of one job with its name: Kubeflow's training operator and trainer,
JobSet, Volcano, Ray and SkyPilot, and Kubernetes' own Job. The first of :data:`LABELS` that a pod
has names its job, within its namespace; nodes of its pods are the servers.
"""

from __future__ import annotations

import csv
import io
import json
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request

from llmprism.io.asking import answer_of
from llmprism.io.sources import read_text
from llmprism.io.topology import ScheduledJob
from llmprism.network.slurm import expanded
from prism_common.errors import Problem, UserError
from prism_common.kinds import AXES
from prism_common.untrusted import whole

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
        try:
            rows = list(_of_csv(text, path))
        except csv.Error as error:
            raise UserError(Problem(f"not valid CSV: {error}", str(path), _FORMS)) from error
    else:
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(Problem(f"not valid JSON: {error}", str(path), _FORMS)) from error
        if is_list_of_pods(content):
            return jobs_of_pods(content)
        rows = list(_of_slurm(content, path))
    found, problems = [], []
    for number, (name, servers, begin, end), sizes in rows:
        try:
            names = frozenset(n for part in servers.split() for n in expanded(part))
            layout = {axis: whole(size, 1) for axis, size in sizes.items()}
            found.append(ScheduledJob(name, names, _time_ns(begin), _time_ns(end), layout))
        except ValueError as error:
            problems.append(Problem(str(error), f"{path}:{number}", _FORMS))
    if problems:
        raise UserError(problems[:50])
    return found


Row = tuple[int, tuple[str, str, Any, Any], Mapping[str, str]]
"""Number of a row; its name, servers, begin and end; sizes of its layout."""


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
            yield number, (f"{job.get('name')} ({job.get('job_id')})", nodes, begin, end), {}


def _of_csv(text: str, path: Path) -> Iterator[Row]:
    rows = csv.DictReader(io.StringIO(text))
    lacking = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
    if lacking:
        what = f"the columns {', '.join(lacking)} are missing"
        raise UserError(Problem(what, f"{path}:1", _FORMS))
    for row in rows:
        name, servers, begin, end = ((row[name] or "").strip() for name in _COLUMNS)
        sizes = {axis: row[axis].strip() for axis in AXES if (row.get(axis) or "").strip()}
        yield rows.line_num, (name, servers, begin, end), sizes


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


LABELS = (
    "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name", "volcano.sh/job-name", "ray.io/cluster",
    "skypilot-cluster-name", "leaderworkerset.sigs.k8s.io/name", "batch.kubernetes.io/job-name",
    "job-name",
)  # fmt: skip
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LARGEST_ANSWER_BYTES = 1 << 28
_TIMEOUT_S = 10.0


def is_list_of_pods(content: Any) -> bool:
    """Whether JSON is a list of pods, as ``kubectl`` or the API writes it."""
    return (
        isinstance(content, Mapping)
        and str(content.get("kind", "")).endswith("List")
        and isinstance(content.get("items"), list)
    )


def jobs_of_pods(content: Mapping[str, Any]) -> list[ScheduledJob]:
    """The jobs of a list of pods; pods without a node or a label of a job belong to none."""
    nodes: dict[str, set[str]] = {}
    begins: dict[str, list[int]] = {}
    for name, node, begin_ns in _pods(content["items"]):
        nodes.setdefault(name, set()).add(node)
        begins.setdefault(name, []).extend([begin_ns] if begin_ns is not None else [])
    return [
        ScheduledJob(name, frozenset(own), min(begins[name], default=None))
        for name, own in nodes.items()
    ]


def _pods(items: list[Any]) -> Iterator[tuple[str, str, int | None]]:
    """Job, node and begin [ns] of each pod that runs."""
    for pod in items:
        parts = [pod.get(one) if isinstance(pod, Mapping) else None for one in _PARTS]
        metadata, spec, status = (one if isinstance(one, Mapping) else {} for one in parts)
        labels = metadata.get("labels")
        labels = labels if isinstance(labels, Mapping) else {}
        job = next((str(labels[one]) for one in LABELS if labels.get(one)), "")
        node = spec.get("nodeName")
        if job and isinstance(node, str) and status.get("phase") not in ("Succeeded", "Failed"):
            space = metadata.get("namespace", "default")
            yield f"{space}/{job}", node, _began_ns(status.get("startTime"))


_PARTS = ("metadata", "spec", "status")


def _began_ns(text: Any) -> int | None:
    try:
        return round(datetime.fromisoformat(str(text)).timestamp()) * 1_000_000_000
    except ValueError:
        return None


def fetched(url: str, account: Path = _ACCOUNT) -> list[ScheduledJob]:
    """The jobs of the pods that an API has, asked as the service account of this pod if it has one.

    Raises
    ------
    UserError : the API does not answer, or with something else.
    """
    how = "give the address of an API of Kubernetes whose pods may be listed"
    target = f"{url.rstrip('/')}/api/v1/pods"
    token, authority = account / "token", account / "ca.crt"
    headers = {"Accept": "application/json"}
    if token.exists():
        headers["Authorization"] = f"Bearer {token.read_text(encoding='utf-8').strip()}"
    context = ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    secure = context if target.startswith("https://") else None
    try:
        asked = Request(target, headers=headers)
        content = json.loads(answer_of(asked, _TIMEOUT_S, _LARGEST_ANSWER_BYTES, secure))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(Problem(f"cannot list pods: {reason}", target, how)) from error
    if not is_list_of_pods(content):
        raise UserError(Problem("this is no list of pods", target, how))
    return jobs_of_pods(content)
