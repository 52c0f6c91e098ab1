"""Exporters over UDP: a restart loses nothing, and datagrams that are dropped are an alert."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Producer

from datagrams import FIELDS, NOW_S, V9_TIMES, a_set, record, template, v9
from goflow2_messages import varint
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.watch.sources import open_source
from processes import started, wait_until
from watching import LLMPRISM, SETTINGS, Watched, events_in

S, MS = 1_000_000_000, 1_000_000
HOSTS = ("10.0.0.1", "10.0.0.2")
TOPOLOGY = {
    "endpoints": [{"address": one, "server": one, "nic": 0} for one in HOSTS],
    "switches": [], "links": [],
}  # fmt: skip


@pytest.fixture
def port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def exporter() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        yield one


def switch(boot_s: int, sizes: list[int], times_first: bool) -> Iterator[bytes]:
    """What a switch sends from its start on: its template, then one record a second."""
    fields = V9_TIMES | FIELDS if times_first else FIELDS | V9_TIMES
    yield v9(a_set(0, template(fields)), uptime=0, seconds=boot_s)
    for number, size in enumerate(sizes, start=1):
        uptime = 1_000 * number
        row = pd.Series({"src": HOSTS[0], "dst": HOSTS[1], "src_port": 1, "dst_port": 2,
                         "protocol": 6, "bytes": size, "packets": 1})  # fmt: skip
        first, last = (struct.pack(">I", uptime - before) for before in (900, 100))
        body = record(row, first, last)
        body = first + last + body[: -len(first + last)] if times_first else body
        yield v9(a_set(256, body), uptime=uptime, seconds=boot_s + number, sequence=number)


def kept(watched: Watched) -> pd.DataFrame:
    """The records that the monitor keeps, in order of time."""
    parts = (watched.folder / "state" / "records").glob("*.parquet")
    return pd.concat(map(pd.read_parquet, parts)).sort_values("start_ns", ignore_index=True)


def test_an_exporter_that_restarts_with_another_template_loses_nothing(
    tmp_path: Path, port: int, exporter: socket.socket
) -> None:
    """Uptime and sequence begin again, and the template has the number of the old one."""
    boots, sizes = (NOW_S, NOW_S + 60), ([*range(100, 110)], [*range(200, 215)])
    before = [*switch(boots[0], sizes[0], times_first=False)]
    after = [*switch(boots[1], sizes[1], times_first=True)]
    watched = Watched(tmp_path, replace(SETTINGS, window_ns=600 * S), source=f"udp://:{port}")
    watched.begin(TOPOLOGY)
    parts = iter([before, after[:6]])
    later = iter([after[6:]])  # to the next monitor, which has to remember the new template

    def send(rest: Iterator[list[bytes]]) -> None:
        for content in next(rest, []):
            exporter.sendto(content, ("127.0.0.1", port))

    for rest in (parts, later):
        watched.round(4, lambda rest=rest: send(rest))
    state = watched.round()
    assert state.fates == {"kept": 25}
    records = kept(watched)
    assert records["bytes"].tolist() == sizes[0] + sizes[1]
    expected = [
        (boot + number) * S - 900 * MS
        for boot, own in zip(boots, sizes, strict=True)
        for number in range(1, len(own) + 1)
    ]
    assert records["start_ns"].tolist() == expected
    assert (records["end_ns"] - records["start_ns"] == 800 * MS).all()


@pytest.mark.parametrize(("ahead_s", "side"), [(20, "ahead of"), (-20, "behind")])
def test_the_clock_of_one_of_three_that_is_20_s_off_is_an_alert(
    tmp_path: Path, port: int, ahead_s: int, side: str
) -> None:
    watched, ends_s = Watched(tmp_path, source=f"udp://127.0.0.1:{port}"), time.monotonic() + 60
    watched.begin(TOPOLOGY)

    def is_over() -> bool:
        for number, one in enumerate(senders):
            boot_s = int(time.time()) - 1 + (0 if number else ahead_s)
            for content in switch(boot_s, [1_000], True):
                one.sendto(content, ("127.0.0.1", port))
        return bool(watched.events) or time.monotonic() > ends_s

    with ExitStack() as stack:
        made = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
        senders = [stack.enter_context(one) for one in made]
        for number, one in enumerate(senders):
            one.bind((f"127.0.0.{number + 2}", 0))
        watched.watch_until(is_over)
    assert watched.happened()[:1] == [("opened", "ExporterClock")]
    assert re.search(f"127.0.0.2 is .* {side} those", watched.events[0]["annotations"]["summary"])


def raw_flow(content: bytes, time_s: int) -> bytes:
    """What the inlet of Akvorado sends of a datagram: arrival, content, exporter, and a decoder."""
    exporter = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1])
    out = varint(1 << 3) + varint(time_s)
    for number, value in ((2, content), (3, exporter)):
        out += varint(number << 3 | 2) + varint(len(value)) + value
    return out + varint(4 << 3) + varint(1) + varint(5 << 3) + varint(1)


@pytest.mark.slow
def test_datagrams_that_akvorado_passes_on_through_kafka_are_read(tmp_path: Path) -> None:
    producer = Producer({"test.mock.num.brokers": 1})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    contents, position, found = [*switch(NOW_S, [*range(100, 110)], True)], None, []
    for half in (contents[:5], contents[5:]):  # the second one without a template
        for content in half:
            producer.produce("raw-flows", raw_flow(content, NOW_S), partition=0)
        assert producer.flush(10) == 0
        source = open_source(f"kafka://{broker.host}:{broker.port}/raw-flows", tmp_path)
        taken = source.take(position, 5.0)
        ingest(taken.files, tmp_path / "flows.parquet", Options())
        found += pd.read_parquet(tmp_path / "flows.parquet")["bytes"].tolist()
        position = taken.position
        source.stored(taken)
        source.close()
    assert found == [*range(100, 110)]


def dropped(port: int) -> int:
    """Datagrams to a port that the kernel has dropped."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if int(row[1].split(":")[1], 16) == port)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many it dropped")
def test_datagrams_that_the_kernel_drops_are_an_alert_and_an_exit_of_their_own(
    tmp_path: Path, port: int, exporter: socket.socket
) -> None:
    watched, state = Watched(tmp_path), tmp_path / "state"
    watched.begin(TOPOLOGY)
    command = [*LLMPRISM, "watch", f"udp://127.0.0.1:{port}", "--topology", str(watched.topology)]
    content = v9(a_set(0, template(FIELDS)), uptime=1)

    def send() -> Any:
        return exporter.sendto(content, ("127.0.0.1", port))

    with started([*command, "--state", str(state)], tmp_path) as process:
        wait_until((state / "spool").exists, 60)
        wait_until(lambda: send() and any((state / "spool").iterdir()), 60)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: bool([send() for _ in range(1_000)]) and dropped(port) > 0, 60)
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: send() and bool(events_in(state)), 60)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 8, err
    (event,) = events_in(state)
    assert (event["event"], event["labels"]["alertname"]) == ("opened", "DatagramsDropped")
    assert event["labels"]["severity"] == "critical"
