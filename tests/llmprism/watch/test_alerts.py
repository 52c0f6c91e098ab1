"""Alerts reach Alertmanager, and metrics Prometheus; a blind monitor says that it is."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmprism.watch.alerts import AlertLines
from llmprism.watch.alerts.alertmanager import Addresses, Alertmanager
from llmprism.watch.metrics import Metrics
from llmprism.watch.settings import SECOND_NS
from prism_common.errors import UserError
from processes import wait_until
from receivers import receiver
from watching import SETTINGS, Watched, pieces, put

DOCS = Path(__file__).parents[3] / "docs" / "monitoring"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"
NO_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
PROMTOOL = shutil.which("promtool")


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_alertmanager_gets_what_is_open_and_what_is_resolved(world: Any, watched: Watched) -> None:
    *first, second = pieces(world.flows, 3)
    watched.settings = replace(SETTINGS, quiet_ns=4 * SECOND_NS)
    with receiver() as posted:
        posted.status = 503
        refused = Alertmanager(posted.url, least_open_s=0.0)
        watched.listeners = [refused]
        put(pd.concat(first), watched.incoming, "0.parquet")
        watched.round()
        refused.close()
        assert posted.posts == []
        assert (refused.sent, refused.failed > 0) == (0, True)
        posted.status = 200
        sender = Alertmanager(f"{posted.url}/", least_open_s=0.0)
        watched.listeners = [sender]
        watched.round()
        wait_until(lambda: bool(posted.posts), 30)
        (path, opened), *_ = posted.posts
        put(second, watched.incoming, "1.parquet")
        watched.round()
        sender.close()
    assert path == "/api/v2/alerts"
    assert [one["labels"]["alertname"] for one in opened] == ["SlowGpu"]
    assert _time(opened[0]["endsAt"]) > _time(opened[0]["startsAt"])
    last = posted.alerts[-1]
    assert last["labels"] == opened[0]["labels"]
    assert last["endsAt"] == watched.events[-1]["endsAt"]
    names = {"alertname", "severity", "job", "culprit_kind", "culprit", "place"}
    assert set(last["labels"]) == names
    assert (sender.sent, sender.problem) == (len(posted.posts), "")


def answer_with(answer: bytes, server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            with server.accept()[0] as client:
                posted = client.recv(1 << 16).startswith(b"POST")
                client.sendall(answer if posted else b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize("answer", [b"SSH-2.0\r\n", REDIRECT, NO_CHUNK])
def test_an_alertmanager_that_takes_nothing_stops_nothing(
    world: Any, watched: Watched, answer: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer_with, args=(answer, server), daemon=True).start()
        sender = Alertmanager(f"http://127.0.0.1:{server.getsockname()[1]}")
        watched.listeners = [sender]
        put(world.flows, watched.incoming, "0.parquet")
        watched.round()
        assert watched.happened()[0] == ("opened", "SlowGpu")
        sender.close()
    assert (sender.sent, sender.failed > 0) == (0, True)
    with pytest.raises(UserError, match="no address"):
        Alertmanager("alertmanager:9093")


def test_an_alert_that_opens_and_resolves_at_once_is_sent_as_open_first(
    world: Any, watched: Watched
) -> None:
    addresses = Addresses("http://page:8080", "http://runbooks/", {"cluster": "a"})
    with receiver() as first, receiver() as second:
        senders = [Alertmanager(one.url, addresses, least_open_s=1.0) for one in (first, second)]
        watched.listeners = senders
        put(world.flows, watched.incoming, "all.parquet")
        watched.round()
        assert [one for one, _ in watched.happened()][-1] == "resolved"
        ended = watched.events[-1]["endsAt"]
        for posted in (first, second):
            wait_until(lambda one=posted: one.alerts and one.alerts[-1]["endsAt"] == ended, 30)
        for sender in senders:
            sender.close()
    opened = second.alerts[0]
    assert _time(opened["endsAt"]) > _time(ended)
    assert opened["labels"] == {**watched.events[0]["labels"], "cluster": "a"}
    assert opened["annotations"]["runbook_url"] == "http://runbooks/SlowGpu"
    assert opened["generatorURL"].startswith("http://page:8080/?incident=")
    assert [one["labels"] for one in first.alerts] == [one["labels"] for one in second.alerts]


def test_silence_and_lag_are_alerts_with_exits_of_their_own(world: Any, watched: Watched) -> None:
    watched.settings = replace(SETTINGS, silence_s=0.5)
    watched.round(rounds=2)
    assert watched.happened() == [("opened", "NoRecords")]
    watched.settings = replace(SETTINGS, lag_ns=10**9)
    put(world.flows.head(50), watched.incoming, "0.parquet")
    watched.round()
    assert watched.happened()[1:] == [("opened", "MonitorLags"), ("resolved", "NoRecords")]
    assert watched.exits == [5, 7]


def test_a_round_that_takes_longer_than_the_silence_bound_is_no_silence(
    world: Any, watched: Watched
) -> None:
    watched.settings = replace(SETTINGS, silence_s=0.001)
    put(world.flows, watched.incoming, "all.parquet")
    watched.round()
    assert ("opened", "SlowGpu") in watched.happened()
    assert ("opened", "NoRecords") not in watched.happened()


def test_metrics_are_those_that_rules_and_dashboard_read(world: Any, watched: Watched) -> None:
    metrics = Metrics([Alertmanager("http://127.0.0.1:9")])
    watched.listeners = [metrics]
    put(world.flows, watched.incoming, "0.parquet")
    watched.round()
    text = metrics.text().decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["llmprism_records_total", "kept"] == len(world.flows)
    assert samples["llmprism_job_gpus", "job-0"] == 8
    ends = world.steps.groupby("step")["end_ns"].max()
    step_s = samples["llmprism_job_step_seconds", "job-0"]
    assert step_s == pytest.approx(ends.diff().median() / 1e9, rel=0.05)
    assert 0 < samples["llmprism_job_waiting_ratio", "job-0"] < 1
    names = {name for name, *_ in samples}
    for file in ("alerts.yaml", "grafana.json"):
        read = set(re.findall(r"(?<!:)\bllmprism_[a-z_]+", (DOCS / file).read_text()))
        assert read <= names
    assert json.loads((DOCS / "grafana.json").read_text())["panels"]


@pytest.mark.full
@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool: apt-get install prometheus")
def test_promtool_accepts_metrics_and_rules(world: Any, watched: Watched) -> None:
    metrics = Metrics()
    watched.listeners = [metrics]
    put(world.flows, watched.incoming, "0.parquet")
    watched.round()
    for arguments, content in (
        (["check", "metrics"], metrics.text()),
        (["check", "rules", str(DOCS / "alerts.yaml")], b""),
        (["test", "rules", str(DOCS / "alerts.test.yaml")], b""),
    ):
        done = subprocess.run([str(PROMTOOL), *arguments], input=content, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_the_file_of_events_turns_over_and_repeats_none(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    events = [{"number": number, "text": "x" * 100} for number in range(1, 8)]
    for number in range(1, 8):
        assert len(AlertLines(path, turn_bytes=300).write(events[:number])) == 1
    kept = [json.loads(line) for name in ("alerts.jsonl.1", "alerts.jsonl")
            for line in (tmp_path / name).read_text().splitlines()]  # fmt: skip
    assert kept == events[-len(kept) :]
    assert len(kept) >= 3
    path.unlink()
    assert AlertLines(path, turn_bytes=300).written >= 3
