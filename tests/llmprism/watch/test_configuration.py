"""Options from a file, names that people know, and what is read again while a monitor runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner

from llmprism.ingest.scheduler_jobs import fetched, read_names
from llmprism.io.topology import ScheduledJob
from llmprism.watch.command import watch_app
from llmprism.watch.live.serving import served
from llmprism.watch.names import Names
from llmprism.watch.network import Network
from llmprism.watch.settings import SECOND_NS
from prism_common.errors import UserError
from processes import started, wait_until
from watching import LLMPRISM, Watched, put

TOPOLOGY = {"endpoints": [{"address": "10.0.0.1", "server": "a", "nic": 0}], "switches": [],
            "links": []}  # fmt: skip


def asked(folder: Path, text: str, *words: str) -> tuple[int, str]:
    """Exit code and output of a monitor that only checks its configuration."""
    (folder / "topology.json").write_text(json.dumps(TOPOLOGY))
    (folder / "watch.yaml").write_text(text)
    command = ["--config", str(folder / "watch.yaml"), "--check-config", *words]
    done = CliRunner().invoke(watch_app, command)
    return done.exit_code, done.output


def test_a_file_has_the_words_of_options_and_the_command_line_comes_first(tmp_path: Path) -> None:
    text = "source: '-'\ntopology: topology.json\nstate: monitor\nwindow: 2m\nevery: 5s\n"
    text += "external-labels: {cluster: a}\nalertmanager: [http://am-1:9093, http://am-2:9093]\n"
    assert asked(tmp_path, text) == (0, "the configuration is right\n")
    assert not (tmp_path / "monitor").exists()
    for wrong, reason in (
        ("--every 90s", "half of --window"),
        ("--serve 0.0.0.0:80", "needs a token"),
        ("--serve 8080 --token-file none", "none"),
        ("--alertmanager http://[::1", "no address"),
        (f"--state {tmp_path}/topology.json", "topology.json"),
        ("udp://[::1", "no port"),
    ):
        code, output = asked(tmp_path, text, *wrong.split())
        assert (code, reason in output) == (1, True)
    for window, code in {"90s": 0, "2m": 0, "1.5h": 0, "1d": 0, "2w": 1, "-1m": 1}.items():
        assert asked(tmp_path, text, f"--window={window}")[0] == code


def test_all_mistakes_of_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    code, output = asked(tmp_path, "source: '-'\nwindwo: 3m\nquiet:\nwindow: 1m\nwindow: 2m\n")
    assert code == 1
    assert "watch.yaml:2: no option is called 'windwo'" in output
    assert "watch.yaml:5: 'window' is there twice" in output
    for broken in (
        "a: [\n",
        "- a\n",
        "a: \a\n",
        "a: " + "[" * 3000,
        "topology: &x [*x]\n",
        "a: \0",
    ):
        code, output = asked(tmp_path, broken)
        assert (code, "watch.yaml" in output, "Traceback" in output) == (1, True, False)
    code, output = asked(tmp_path, "source: '-'\n")
    assert (code, "--topology, --state must be given" in output) == (2, True)


POD = {
    "metadata": {"namespace": "research", "labels": {"training.kubeflow.org/job-name": "llm"}},
    "spec": {"nodeName": "gpu01"},
    "status": {"phase": "Running", "startTime": "2026-03-01T00:00:00Z"},
}


def pods() -> dict[str, Any]:
    other = {**POD, "spec": {"nodeName": "gpu02"}}
    ended = {**POD, "spec": {"nodeName": "gpu03"}, "status": {"phase": "Succeeded"}}
    plain = {"metadata": {"name": "dns", "labels": {}}, "spec": {"nodeName": "gpu01"}, "status": {}}
    return {"kind": "PodList", "items": [POD, other, ended, plain, None, {"metadata": 3}]}


EXPECTED = [ScheduledJob("research/llm", frozenset({"gpu01", "gpu02"}), 1_772_323_200 * SECOND_NS)]


def test_jobs_of_kubernetes_are_known_by_the_labels_of_their_pods(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text(json.dumps(pods()))
    assert read_names(path) == EXPECTED


def test_the_api_of_kubernetes_is_asked_as_a_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")

    async def answer(request: Request) -> Response:
        is_right = request.headers.get("authorization") == "Bearer secret"
        return JSONResponse(pods() if is_right else {"kind": "Status"}, 200 if is_right else 403)

    with served(Starlette(routes=[Route("/api/v1/pods", answer)]), "127.0.0.1", 0) as url:
        assert fetched(url, tmp_path) == EXPECTED
        with pytest.raises(UserError, match="cannot list pods"):
            fetched(url, tmp_path / "nowhere")


def test_alerts_speak_of_jobs_and_switches_by_the_names_that_people_know(
    world: Any, watched: Watched
) -> None:
    servers = " ".join(one["server"] for one in world.topology["endpoints"])
    names = watched.folder / "jobs.csv"
    names.write_text(f"job,servers,begin,end\nllama (42),{servers},0,\n")
    hosts = watched.folder / "hosts"
    switch = world.topology["switches"][0]["name"]
    hosts.write_text(f"192.0.2.9 {switch}\n192.0.2.10 elsewhere\n")
    network = Network(watched.topology, Names(str(names), hosts, {"x": "y"}))
    assert network.names.points == {"192.0.2.9": switch, "x": "y"}
    watched.names = Names(str(names))
    put(world.flows, watched.incoming, "0.parquet")
    watched.round()
    assert {one["labels"]["job"] for one in watched.events} == {"llama (42)"}


@pytest.mark.slow
def test_at_sighup_the_configuration_is_read_again_and_a_wrong_one_changes_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "topology.json").write_text(json.dumps(TOPOLOGY))
    (tmp_path / "in").mkdir()
    config = tmp_path / "watch.yaml"
    text = f"source: {tmp_path}/in\ntopology: topology.json\nstate: state\nlog-format: json\n"
    config.write_text(text)
    errors = tmp_path / "errors"

    def lines() -> list[dict[str, str]]:
        return [json.loads(one) for one in errors.read_text().splitlines() if one.endswith("}")]

    def has(level: str, words: str) -> bool:
        return any(one["level"] == level and words in one["message"] for one in lines())

    with errors.open("wb") as stream:
        command = [*LLMPRISM, "watch", "--config", str(config)]
        with started(command, tmp_path, stderr=stream) as process:
            wait_until((tmp_path / "state" / "records").exists, 60)
            config.write_text(text + "window: 10m\n")
            os.kill(process.pid, signal.SIGHUP)
            wait_until(lambda: has("info", "read again"), 60)
            config.write_text(text + "window: soon\n")
            os.kill(process.pid, signal.SIGHUP)
            wait_until(lambda: has("error", "of before holds"), 60)
            os.kill(process.pid, signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 1  # TopologyRefused: what was read last is wrong
