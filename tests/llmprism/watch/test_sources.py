"""What comes from standard input and from a port is what the same records give as files."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Producer

import prism_sim as ps
from goflow2_messages import after_length, message
from llmprism.collectives.diagnosing import diagnose as collectives
from llmprism.collectives.reading import read
from llmprism.ingest.datagrams import datagrams
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.readers.netflow import PROTOCOL
from llmprism.ingest.sources import Source
from llmprism.io.notes import Notes
from llmprism.io.topology import read_topology
from llmprism.network import read_network
from llmprism.watch.sources import open_source
from prism_common.errors import UserError
from processes import started, wait_until
from watching import LLMPRISM, SETTINGS, Watched, events_in, pieces

GOFLOW2 = {"start_ns": "time_flow_start_ns", "end_ns": "time_flow_end_ns"}
GOFLOW2 |= {"src": "src_addr", "dst": "dst_addr"}
EXPORTS = Path(__file__).parents[2] / "fixtures" / "exports"


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.slow
def test_datagrams_of_a_port_are_read_as_from_a_file_also_after_a_restart(tmp_path: Path) -> None:
    file = Source(EXPORTS / "training.ipfix.gz")
    sent = iter([one.content for one in islice(datagrams(file, PROTOCOL, Notes()), 400)])
    raw = tmp_path / "raw"
    contents = list(sent)
    raw.write_bytes(b"".join(contents))
    expected = ingest([Source(raw)], tmp_path / "flows.parquet", Options()).notes.records
    watched = Watched(tmp_path / "watched")
    watched.begin(read_network([EXPORTS / "cables.csv"], {}, Notes()))
    port = _free_port()
    watched.source = f"udp://127.0.0.1:{port}"
    for half in (contents[:200], contents[200:]):
        waiting = iter(half)
        state = watched.round(rounds=5, between=lambda rest=waiting: _send(rest, port))
    state = watched.round()
    assert state.fates["kept"] + state.fates["unknown"] == expected
    assert "set_aside" not in state.fates
    assert list((watched.folder / "state" / "spool").glob("*.pcap")) == []


def _send(contents: Any, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for number, content in enumerate(contents):
            one.sendto(content, ("127.0.0.1", port))
            if number % 20 == 0:
                time.sleep(0.002)


def test_lines_of_standard_input_are_all_read_before_the_end(world: Any, watched: Watched) -> None:
    flows = world.flows.drop(columns="path").rename(columns=GOFLOW2)
    text = flows.to_json(orient="records", lines=True)
    state = watched.folder / "state"
    command = [*LLMPRISM, "watch", "-", "--topology", str(watched.topology)]
    command += ["--state", str(state), "--window", "20s", "--lag-bound", "2000000000s"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    stored = json.loads((state / "state.json").read_text())
    assert stored["fates"]["kept"] == len(world.flows)
    assert [json.loads(line) for line in done.stdout.splitlines()] == events_in(state)
    assert ("opened", "SlowGpu") in watched.happened()


def test_a_file_is_known_by_what_it_holds(tmp_path: Path) -> None:
    """Renamed, compressed, touched; another one in its place; cut short; in a damaged state."""
    folder = tmp_path / "in"
    folder.mkdir()
    source, position = open_source(str(folder), tmp_path), None

    def taken() -> list[str]:
        nonlocal position
        found = source.take(position, 0.0)
        position = json.loads(json.dumps(found.position))
        return [one.path.name for one in found.files]

    def packed(cut: int) -> None:
        (folder / "b.csv.gz").write_bytes(gzip.compress(b"start,end\n" * 99)[:cut])

    (folder / "a.csv").write_bytes(b"start,end\n" * 99)
    assert taken() == ["a.csv"]
    packed(-9)
    assert taken() == []
    packed(1 << 20)
    (folder / "a.csv").unlink()
    assert taken() == []
    os.utime((folder / "b.csv.gz").rename(folder / "c.csv.gz"))
    assert taken() == []
    (folder / "c.csv.gz").write_bytes(b"start,end,size\n")
    assert taken() == ["c.csv.gz"]
    packed(-9)
    os.utime(folder / "b.csv.gz", (1, 1))
    assert taken() == ["b.csv.gz"]
    position = {"b.csv.gz": [], "c.csv.gz": [1, 2, {}], "a.csv": 1}
    assert taken() == ["b.csv.gz", "c.csv.gz"]


@pytest.mark.parametrize("text", ["udp://127.0.0.1", "udp://h:port", "no/such/folder", "tcp://a:1"])
def test_what_is_no_source_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError):
        open_source(text, tmp_path)


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    port = _free_port()
    source = open_source(f"udp://127.0.0.1:{port}", tmp_path / "a")
    with pytest.raises(UserError, match="cannot receive"):
        open_source(f"udp://127.0.0.1:{port}", tmp_path / "b")
    source.close()


@pytest.mark.slow
def test_messages_of_all_partitions_are_taken_once(world: Any, watched: Watched) -> None:
    producer = Producer({"test.mock.num.brokers": 1})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    watched.source = f"kafka://{broker.host}:{broker.port}/flows"
    flows = world.flows.drop(columns="path").rename(columns=GOFLOW2)
    for half in pieces(flows.rename(columns={"time_flow_end_ns": "end_ns"}), 2):
        ours = half.rename(columns={"end_ns": "time_flow_end_ns"})
        for number, line in enumerate(ours.to_json(orient="records", lines=True).splitlines()):
            producer.produce("flows", line, partition=number % 2)
        assert producer.flush(10) == 0
        state = watched.round(rounds=2)
    assert state.fates["kept"] == len(world.flows)
    assert sum(state.position.values()) == len(world.flows)
    assert len(state.position) > 1
    assert ("opened", "SlowGpu") in watched.happened()
    source = open_source(watched.source, watched.folder)
    first, again = source.take(None, 5.0), source.take(None, 5.0)
    assert first.position == again.position == state.position
    source.close()
    with pytest.raises(UserError, match="no topic"):
        open_source("kafka://127.0.0.1:9", watched.folder)


@pytest.mark.slow
def test_binary_messages_are_read_with_and_without_their_lengths(tmp_path: Path) -> None:
    producer = Producer({"test.mock.num.brokers": 1})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    now_ns, count = time.time_ns(), 300
    for number in range(count):
        content = message(
            time_received_ns=now_ns, time_flow_start_ns=now_ns + number, bytes=1_000 + number,
            time_flow_end_ns=now_ns + number + 1, src_addr="10.0.0.1", dst_addr="10.0.0.2",
        )  # fmt: skip
        producer.produce("flows", after_length(content) if number % 2 else content)
    assert producer.flush(10) == 0
    source = open_source(f"kafka://{broker.host}:{broker.port}/flows", tmp_path)
    taken = source.take(None, 5.0)
    ingest(taken.files, tmp_path / "flows.parquet", Options())
    source.close()
    records = pd.read_parquet(tmp_path / "flows.parquet")
    assert sorted(records["bytes"]) == [1_000 + number for number in range(count)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    return ps.simulate("faults/slow-server", set={"collectives": {}}, out=folder).folder


def _dumps(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "collectives").iterdir()}


@pytest.mark.slow
def test_dumps_alone_give_what_one_diagnosis_gives_whenever_the_monitor_is_killed(
    tmp_path: Path, recorded: Path
) -> None:
    (folder := tmp_path / "dumps").mkdir()
    (folder / "nccl.prom").write_text("# TYPE nccl_bus_bandwidth_gbs gauge\n")
    state, dumps = tmp_path / "m", _dumps(recorded)
    command = [*LLMPRISM, "watch", "--collectives", "dumps", "--state", "m", "--window", "3s"]
    command += ["--topology", str(recorded / "topology.json"), "--every", "500ms"]
    command += ["--quiet-period", "1s", "--lag-bound", "2000000000s", "--silence-bound", "1000s"]
    moments = (
        lambda: any((state / "records").glob("*.parquet")),  # before the commit, or after it
        lambda: any((state / "history").rglob("*.parquet")),
        lambda: "SlowServer" in str(events_in(state)),
    )
    for third, happened in enumerate(moments, 1):
        for number, (name, content) in enumerate(dumps.items()):
            grown = content[: len(content) * third // 3]  # to within a line
            if third == 3 and number % 2:
                (folder / name).unlink()
                (folder / f"{name}.1.gz").write_bytes(gzip.compress(grown))
            else:
                (folder / name).write_bytes(grown)
        with started(command, tmp_path) as process:
            wait_until(happened, 120)
            os.kill(process.pid, signal.SIGKILL)
    watched = Watched(tmp_path, replace(SETTINGS, collectives=folder, has_flows=False))
    (tmp_path / "m").rename(tmp_path / "state")
    watched.begin(json.loads((recorded / "topology.json").read_text()))
    assert watched.round().fates == {"kept": b"".join(dumps.values()).count(b"\n")}
    assert [one["number"] for one in watched.events] == list(range(1, len(watched.events) + 1))
    table = collectives(read([str(recorded / "collectives")], {}), read_topology(watched.topology))
    once = table.diagnosis.findings.iloc[0]
    (alert,) = [one for one in watched.events if one["event"] == "opened"]
    assert alert["labels"]["culprit"] == once["culprit"]
    assert (alert["first_step"], alert["last_step"]) == (once["first_step"], once["last_step"])


@pytest.mark.slow
def test_an_alert_says_what_dumps_of_collectives_show_that_grow_meanwhile(
    tmp_path: Path, recorded: Path
) -> None:
    (folder := tmp_path / "dumps").mkdir()
    dumps = _dumps(recorded)
    for name, content in dumps.items():
        (folder / name).write_bytes(content[: len(content) // 2])  # to within a line
    flows = pd.read_parquet(recorded / "flows.parquet").sort_values("end_ns").to_csv(index=False)
    command = [*LLMPRISM, "watch", "-", "--topology", str(recorded / "topology.json")]
    command += ["--collectives", "dumps", "--state", "m", "--window", "10s", "--every", "500ms"]
    command += ["--quiet-period", "1s", "--lag-bound", "2000000000s"]
    with started(command, tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(flows[:200_000])
        process.stdin.flush()
        wait_until(lambda: any((tmp_path / "m" / "records").glob("*.parquet")), 60)
        for name, content in dumps.items():
            with (folder / name).rename(folder / f"{name}.1").open("ab") as file:
                file.write(content[len(content) // 2 :])
        first = json.loads(process.communicate(flows[200_000:], timeout=120)[0].splitlines()[0])
    assert first["labels"]["place"] == "s0005"
    for kind in ("flows", "collectives"):
        assert f"{kind} name it" in first["annotations"]["summary"]
