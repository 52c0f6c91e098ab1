"""A real Prometheus and a real Alertmanager: a slow replica reaches a webhook, and is resolved."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib import parse, request

import pandas as pd
import pytest

from llmprism.watch.alerts.alertmanager import Addresses, Alertmanager
from llmprism.watch.live.application import Live, application
from llmprism.watch.metrics import Metrics
from llmprism.watch.settings import SECOND_NS
from prism_common.service.serving import served
from processes import started, wait_until
from receivers import Posted, receiver
from watching import SETTINGS, Watched, pieces, put

DOCS = Path(__file__).parents[3] / "docs" / "monitoring"
PROMETHEUS, ALERTMANAGER = shutil.which("prometheus"), shutil.which("prometheus-alertmanager")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        PROMETHEUS is None or ALERTMANAGER is None,
        reason="apt-get install prometheus prometheus-alertmanager",
    ),
]
ROUTE = {"receiver": "hook", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]}


def _port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        with request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def _alertmanager(folder: Path, hook: str) -> Iterator[str]:
    hooks = [{"url": f"{hook}/", "send_resolved": True}]
    config = {"route": ROUTE, "receivers": [{"name": "hook", "webhook_configs": hooks}]}
    (folder / "alertmanager.yml").write_text(json.dumps(config))
    port = _port()
    command = [str(ALERTMANAGER), "--config.file=alertmanager.yml", "--storage.path=am"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    with started(command, folder):
        wait_until(lambda: _answers(f"http://127.0.0.1:{port}/-/ready"), 30)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _prometheus(folder: Path, page: str) -> Iterator[str]:
    target = parse.urlsplit(page).netloc
    scrape = {"job_name": "llmprism", "static_configs": [{"targets": [target]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    config["rule_files"] = [str(DOCS / "alerts.yaml")]
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = _port()
    command = [str(PROMETHEUS), "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb"]
    with started([*command, f"--web.listen-address=127.0.0.1:{port}"], folder):
        wait_until(lambda: _answers(f"http://127.0.0.1:{port}/-/ready"), 30)
        yield f"http://127.0.0.1:{port}"


def _seen(posted: Posted, status: str) -> bool:
    alerts = [one for _, content in posted.posts for one in content["alerts"]]
    return any((one["status"], one["labels"]["alertname"]) == (status, "SlowGpu") for one in alerts)


def _value(prometheus: str, query: str) -> float:
    url = f"{prometheus}/api/v1/query?{parse.urlencode({'query': query})}"
    with request.urlopen(url, timeout=5) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def test_a_slow_replica_reaches_a_webhook_and_is_resolved(
    world: Any, watched: Watched, tmp_path: Path
) -> None:
    shift = time.time_ns() - int(world.flows["end_ns"].max())
    times = {name: world.flows[name] + shift for name in ("start_ns", "end_ns")}
    *before, after = pieces(world.flows.assign(**times), 3)
    watched.settings = replace(SETTINGS, quiet_ns=4 * SECOND_NS)
    live, metrics = Live(), Metrics()
    with (
        receiver() as posted,
        _alertmanager(tmp_path, posted.url) as alertmanager,
        served(application(live, metrics, ""), "127.0.0.1", 0) as page,
        _prometheus(tmp_path, page) as prometheus,
    ):
        watched.listeners = [
            Alertmanager(alertmanager, Addresses(page), least_open_s=0.0),
            live,
            metrics,
        ]
        put(pd.concat(before), watched.incoming, "0.parquet")
        watched.round(rounds=2)
        wait_until(lambda: _seen(posted, "firing"), 30)
        assert not _seen(posted, "resolved")
        put(after, watched.incoming, "1.parquet")
        watched.round()
        wait_until(lambda: _seen(posted, "resolved"), 30)
        query = 'llmprism_records_total{fate="kept"}'
        wait_until(lambda: _value(prometheus, query) == len(world.flows), 30)
        assert _value(prometheus, 'up{job="llmprism"}') == 1
