"""How long after a slow step its alert is posted, while records come at their own pace.

The monitor is a process of its own, as ``llmprism watch --alertmanager URL`` runs. It first gets
the records of a minute together, and learns the jobs. From then on it gets those of each second
when that second is over. In the first job, one GPU becomes slow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.fleet import GPUS, NS, Fleet, server_of, write_topology, written
from evaluation.monitoring.process import Watching, watching
from llmprism.watch.live.serving import served
from prism_sim.loading.loader import load
from prism_sim.run_folder import Run

_JOB = "benchmarks/job.yaml"
_CHANGES: dict[str, Any] = {"duration_s": 220, "jobs.0.dp": 2, "cluster.servers": 16}
_BEFORE_S = 60  # of records before those that come at their own pace
_SLOW_S = 125
_FAULT = {"kind": "slow_gpu", "job": "gpt", "rank": 37, "factor": 0.6, "from_s": _SLOW_S}
_AFTER_S = 60  # of records after the first slow step, if there is no alert
_LEARNING_S = 3_600
LATE_S = 10.0  # and two steps: the alert has to come by then


@dataclass
class Delay:
    """What came of it.

    Attributes
    ----------
    records_per_s : that came.
    learned_s : until the jobs were known [s].
    alert_s : from the end of the first slow step to the post [s]; None if there was none.
    cores, memory_bytes : of the monitor, while records came at their own pace; the peak.
    server : of the slow GPU.
    alerts : what was posted, by cause and place.
    """

    gpus: int
    records_per_s: float = 0.0
    learned_s: float = 0.0
    alert_s: float | None = None
    cores: float = 0.0
    memory_bytes: int = 0
    server: str = ""
    alerts: dict[tuple[str, str], float] = field(default_factory=dict)


def measure(jobs: int, folder: Path) -> Delay:
    """Watch so many jobs of 128 GPUs in ``folder``, a new one."""
    incoming = folder / "incoming"
    incoming.mkdir(parents=True)
    calm = simulated(load(_JOB, _CHANGES), RESULTS / "worlds")
    slow = simulated(
        load(_JOB, {**_CHANGES, "faults": [_FAULT | {"to_s": 220}]}), RESULTS / "worlds"
    )
    step_s, ends_s = float(_ends_s(calm).diff().median()), _ends_s(slow)
    slow_s = float(ends_s[ends_s.diff() > 1.1 * ends_s.diff().median()].min())
    fleet = Fleet(calm, slow, jobs, step_s * NS)
    seconds = round(slow_s) + _AFTER_S
    paths = list(written(fleet, seconds, folder / "waiting"))
    found = Delay(jobs * GPUS, server=_server(slow))
    later = paths[_BEFORE_S:]
    found.records_per_s = sum(pq.read_metadata(one).num_rows for one in later) / len(later)
    topology = folder / "topology.json"
    write_topology(calm, jobs, topology)
    with (
        _receiver(found) as url,
        watching(str(incoming), topology, folder, "--alertmanager", url) as monitor,
    ):
        found.learned_s = _learn(paths[:_BEFORE_S], fleet.begins_ns, incoming, monitor)
        used_s, began_s = monitor.cpu_s(), time.time()
        slow_at_s = began_s + slow_s - _BEFORE_S
        for number, path in enumerate(later):
            time.sleep(max(began_s + number + 1 - time.time(), 0.0))
            path.rename(incoming / path.name)
            if monitor.process.poll() is not None or _posted(found, slow_at_s) is not None:
                break
        time.sleep(0 if found.alert_s is not None else 5)
        found.alert_s = _posted(found, slow_at_s)
        found.cores = (monitor.cpu_s() - used_s) / (time.time() - began_s)
        found.memory_bytes = monitor.memory_bytes("VmHWM")
    return found


def _ends_s(run: Run) -> pd.Series:
    """The end of each step since the first record [s]."""
    begin_ns = pd.read_parquet(run.flows, columns=["start_ns"])["start_ns"].min()
    ends_ns = pd.Series(run.truth("steps").groupby("step")["end_ns"].max())
    return ends_ns.sub(begin_ns).div(NS)


def _server(run: Run) -> str:
    """The server of the slow GPU, in the first job."""
    ranks = run.truth("ranks")
    return server_of(str(ranks.loc[ranks["rank"] == _FAULT["rank"], "server"].iloc[0]), 0)


def _learn(paths: list[Path], begins_ns: int, incoming: Path, monitor: Watching) -> float:
    """Let the monitor have the first records; return how long it took to know their jobs [s]."""
    began_s = time.time()
    for path in paths:
        path.rename(incoming / path.name)
    until_ns = begins_ns + (len(paths) - 5) * NS
    while monitor.process.poll() is None and time.time() < began_s + _LEARNING_S:
        if (monitor.stored().get("cursor_ns") or 0) >= until_ns:
            break
        time.sleep(0.5)
    return time.time() - began_s


def _posted(found: Delay, slow_at_s: float) -> float | None:
    """Seconds from the end of the slow step to the post about its server."""
    times = [at for (_, place), at in found.alerts.items() if place == found.server]
    return min(times) - slow_at_s if times else None


@contextmanager
def _receiver(found: Delay) -> Iterator[str]:
    """Stands in for Alertmanager, and notes when each alert came first."""

    async def take(request: Request) -> Response:
        at = time.time()
        for alert in await request.json():
            labels = alert["labels"]
            found.alerts.setdefault((labels["alertname"], labels.get("place", "")), at)
        return Response()

    app = Starlette(routes=[Route("/{path:path}", take, methods=["POST"])])
    with served(app, "127.0.0.1", 0) as url:
        yield url.rstrip("/")
