"""Every source that a monitor reads again gives anything: nothing is lost or missed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest

from llmprism.watch.health import EXITS
from processes import started, wait_until
from watching import LLMPRISM, Watched, events_in, pieces, put

OK = b"HTTP/1.0 200 OK\r\n\r\n"
PODS = b'{"kind": "PodList", "items": []}'
LEADS = b"HTTP/1.0 302 Found\r\nLocation: /elsewhere\r\n\r\n"
ANSWERS = {"good": OK + PODS, "garbage": b"\xff\0\r\n\r\n", "nothing": b"", "redirect": LEADS,
           "huge": OK + b"[" * (1 << 24), "hang": b""}  # fmt: skip
FILES = {"garbage": b"\xff{[\0", "nothing": b"", "huge": b"{", "redirect": b"", "hang": b""}
DRAW = random.Random(7)


class Server(ThreadingTCPServer):
    """An Alertmanager and an API of Kubernetes that answer as they like while they are wild."""

    daemon_threads, is_wild = True, False
    alerts: set[str]
    answers: set[str]


class Handler(StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        head = b"".join(iter(lambda: self.rfile.readline().strip() + b"\n", b"\n"))
        size = re.search(rb"Content-Length: (\d+)", head, re.IGNORECASE)
        body = self.rfile.read(int(size[1]) if size else 0)
        how = DRAW.choice([*ANSWERS]) if self.server.is_wild else "good"
        self.server.answers.add(how)
        time.sleep(15 if how == "hang" else 0)
        self.wfile.write(ANSWERS[how])
        if body and how == "good":
            self.server.alerts |= {one["labels"]["alertname"] for one in json.loads(body)}


def spoil(path: Path, how: str) -> None:
    """Put something else where a file was."""
    path.unlink(missing_ok=True)
    if how == "hang":
        os.mkfifo(path)
    elif how == "redirect":
        path.symlink_to("nowhere")
    else:
        path.write_bytes(FILES[how])
        os.truncate(path, 10 << 30 if how == "huge" else len(FILES[how]))


def sources(folder: Path, world: Any, url: str, names: str) -> dict[Path, bytes]:
    """Files that are read again, with what they have when they are right."""
    config = {"source": "incoming", "topology": "topology.json", "state": "state",
              "names": url if names == "kubernetes" else "jobs.csv", "hosts": "hosts",
              "alertmanager": [url], "window": "10s", "quiet-period": "2s",
              "lag-bound": "20000d", "silence-bound": "1h", "serve": "127.0.0.1:0"}  # fmt: skip
    right = {"topology.json": json.dumps(world.topology), "hosts": "192.0.2.9 leaf0\n",
             "jobs.csv": "job,servers,begin,end\n", "watch.yaml": json.dumps(config)}  # fmt: skip
    return {folder / name: text.encode() for name, text in right.items()}


@pytest.mark.parametrize(
    ("names", "lasts_s"),
    [("slurm", 15), ("kubernetes", 15), pytest.param("kubernetes", 3600, marks=pytest.mark.full)],
)
def test_whatever_all_sources_give_no_record_is_lost_and_no_alert_missed(
    world: Any, watched: Watched, tmp_path: Path, names: str, lasts_s: float
) -> None:
    expected = {name for event, name in watched.by_strides(world).happened() if event == "opened"}
    folder = tmp_path / "wild"
    (folder / "incoming").mkdir(parents=True)
    with Server(("127.0.0.1", 0), Handler) as server, (folder / "errors").open("wb") as errors:
        server.alerts, server.answers = set(), set()
        Thread(target=server.serve_forever, daemon=True).start()
        right = sources(folder, world, f"http://127.0.0.1:{server.server_address[1]}", names)
        for path, content in right.items():
            path.write_bytes(content)
        command = [*LLMPRISM, "watch", "--config", str(folder / "watch.yaml")]
        with started(command, folder, stderr=errors) as process:
            wait_until((folder / "state" / "records").exists, 120)
            server.is_wild = True
            for number, records in enumerate(pieces(world.flows, 15)):
                put(records, folder / "incoming", f"{number}.parquet")
                until_s = time.monotonic() + lasts_s / 15
                while time.monotonic() < until_s:
                    spoil(DRAW.choice([*right]), DRAW.choice([*FILES]))
                    for day in (folder / "state" / "history" / "steps").glob("day=*"):
                        (day / "0000000000.parquet").write_bytes(b"PAR1 no table")
                    os.kill(process.pid, signal.SIGHUP)
                    time.sleep(0.2)
            server.is_wild = False
            for path, content in right.items():
                path.unlink(missing_ok=True)
                path.write_bytes(content)
            os.kill(process.pid, signal.SIGHUP)
            stored = folder / "state" / "state.json"
            kept = re.compile(rf'"kept": ?{len(world.flows)}\b')
            wait_until(lambda: kept.search(stored.read_text()) is not None, 120)
            wait_until(lambda: expected <= server.alerts, 150)
            wait_until(lambda: not json.loads(stored.read_text())["blind"], 150)
            (page,) = re.findall(r"live page: (http\S+)", (folder / "errors").read_text())
            assert urlopen(page + "-/healthy").status == 200
            assert b"blind" in urlopen(page + "metrics").read()
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(120) == 0
        server.shutdown()
    alerts = {one["labels"]["alertname"] for one in events_in(folder / "state")}
    assert expected <= alerts
    assert alerts & EXITS.keys(), "nothing of it was shown"
    assert "Traceback" not in (folder / "errors").read_text()
    assert server.answers > {"good"}
