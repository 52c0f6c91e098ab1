"""Which jobs Kubernetes runs where: from the labels of pods.

``kubectl get pods -A -o json`` and the API (``GET /api/v1/pods``) give a list of pods. Operators
for training label the pods of one job with its name: Kubeflow's training operator and trainer,
JobSet, Volcano and Ray, and Kubernetes' own Job. The first of :data:`LABELS` that a pod has names
its job, within its namespace; nodes of its pods are the servers.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import URLError

from llmprism.job_names import ScheduledJob
from prism_common.errors import Problem, UserError

LABELS = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name",
    "volcano.sh/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LIMIT_BYTES = 1 << 28
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
            yield f"{space}/{job}", node, _time_ns(status.get("startTime"))


_PARTS = ("metadata", "spec", "status")


def _time_ns(text: Any) -> int | None:
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
        asked = request.Request(target, headers=headers)
        with request.urlopen(asked, timeout=_TIMEOUT_S, context=secure) as answer:
            content = json.loads(answer.read(_LIMIT_BYTES))
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(Problem(f"cannot list pods: {reason}", target, how)) from error
    if not is_list_of_pods(content):
        raise UserError(Problem("this is no list of pods", target, how))
    return jobs_of_pods(content)
