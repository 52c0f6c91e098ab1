"""Every format gives the same readings; what has no counters is refused with the reason."""

from __future__ import annotations

import json
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import Readings
from prism_common.errors import UserError

FOLDER = Path(__file__).parents[2] / "fixtures" / "counters" / "inputs"
INPUTS = tomllib.loads((FOLDER / "expected.toml").read_text())
SECONDS = [1_700_000_000, 1_700_000_001, 1_700_000_002]
IN, OUT = [100, 300, 600], [12, 32, 60]
EXPECTED = [*zip(SECONDS, IN, OUT, strict=True)]
LABELS = {"instance": "leaf1", "ifName": "eth1"}


def rows(head: str, times=SECONDS) -> str:
    lines = [f"{t},leaf1,eth1,{i},{o}" for t, i, o in zip(times, IN, OUT, strict=True)]
    return "\n".join([head, *lines]) + "\n"


def answer(metric: dict[str, str], values: list) -> dict:
    pairs = [[t, str(v)] for t, v in zip(SECONDS, values, strict=True)]
    result = [{"metric": metric, "values": pairs}]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def answers(name_in: str, name_out: str) -> str:
    both = ((name_in, IN), (name_out, OUT))
    return "\n".join(json.dumps(answer({**LABELS, "__name__": n}, v)) for n, v in both)


def event(time: int, **values: object) -> dict:
    """A message of gnmic in the format ``event``."""
    return {"name": "counters", "timestamp": time * 10**9,
            "tags": {"interface_name": "eth1", "source": "leaf1:57400"},
            "values": {f"/if/{n.replace('_', '-')}": v for n, v in values.items()}}  # fmt: skip


def messages(message) -> str:
    lines = [json.dumps(message(t, in_octets=i, out_octets=o)) for t, i, o in EXPECTED]
    return "\n".join(lines) + "\n"


def answered(text: str) -> str:
    """Output of a program, with the time before each answer."""
    return "".join(
        f"{t}.000000000\n" + text.format(sent=i // 4, received=o // 4, i=i, o=o)
        for t, i, o in EXPECTED
    )


PERFQUERY = """\
# Port extended counters: Lid 12 port 1 (CapMask: 0x5300)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................{sent}
PortRcvData:.....................{received}
PortXmitPkts:....................7
"""


def plain(readings: Readings, factor: int = 1) -> dict[str, list[tuple[int, int, int]]]:
    """Time [s], bytes in and out of each port."""
    return {
        port.port: [
            (int(t) // 10**9, int(i) * factor, int(o) * factor)
            for t, i, o in zip(
                port.time_ns, port.values["in_bytes"], port.values["out_bytes"], strict=True
            )
        ]
        for port in readings.ports
    }


@pytest.mark.parametrize(("name", "port"), INPUTS["ports"].items())
def test_every_exporter_gives_the_same_readings(name, port):
    readings = read([str(FOLDER / name)], Options())
    (found,) = (one for one in readings.ports if port in (one.port, *one.aliases))
    factor = {"words": 4, "bytes": 1}[found.unit]
    expected = [*zip(INPUTS["time_s"], INPUTS["in_bytes"], INPUTS["out_bytes"], strict=True)]
    assert plain(Readings(None, [found]), factor) == {found.port: expected}
    assert (factor == 4) == (name in INPUTS["words"])


@pytest.mark.parametrize(("name", "words"), INPUTS["refused"].items())
def test_what_no_reader_takes_is_refused_with_the_way(name, words):
    with pytest.raises(UserError, match=words):
        read([str(FOLDER / name)], Options())


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table({"wann": SECONDS, "wo": ["p"] * 3, "rein": IN, "raus": OUT}), path)
    names = {"time": "wann", "port": "wo", "in_bytes": "rein", "out_bytes": "raus"}
    assert plain(read([str(path)], Options(mapping=names))) == {"p": EXPECTED}


GOOD = rows("time,switch,port,in_bytes,out_bytes")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD + "1700000003,leaf1,eth1,,70\n17000", "rows without a time, a port or a number"),
        (GOOD + "1700000003,leaf1,eth1,1.5,70\n", "rows without a time, a port or a number"),
        (GOOD + "1,leaf1,eth1,7,70,1\n", "line with another number of columns than the header"),
        (GOOD + "1700000003000,leaf1,eth1,7,70\n", "rows without a time, a port or a number"),
        (messages(event) + "not a message\n", "lines that are no message"),
        (messages(event) + '{"x": "caf\udce9"}\n', "lines that are no message"),
        (messages(event) + json.dumps(event(1, in_octets="x")), "values that are no whole number"),
    ],
)
def test_what_cannot_be_read_is_counted(tmp_path, content, reason):
    path = tmp_path / "broken.csv"
    path.write_bytes(content.encode("utf-8", errors="surrogateescape"))
    readings = read([str(path)], Options())
    assert plain(readings) == {"leaf1/eth1": EXPECTED}
    assert readings.set_aside[reason] == 1


def test_a_time_that_64_bits_do_not_hold_is_counted(tmp_path):
    rows = [f"{year}-03-01T12:00\nrx_bytes: 1\ntx_bytes: 1\n" for year in (2024, 2025, 9999)]
    (tmp_path / "eth0.txt").write_text("".join(rows))
    readings = read([str(tmp_path / "eth0.txt")], Options())
    assert readings.ports[0].time_ns.size == readings.set_aside["values without a time"] == 2


def test_a_counter_that_did_not_change_keeps_its_value(tmp_path):
    first, *rest = EXPECTED
    lines = [event(first[0], in_octets=first[1], out_octets=first[2])]
    lines += [event(t, in_octets=i) for t, i, _ in rest]
    (tmp_path / "changes.json").write_text("\n".join(map(json.dumps, lines)))
    assert plain(read([str(tmp_path / "changes.json")], Options())) == {
        "leaf1/eth1": [(t, i, first[2]) for t, i, _ in EXPECTED]
    }


def test_a_time_outside_is_left_out(tmp_path):
    (tmp_path / "counters.csv").write_text(GOOD)
    options = Options(from_ns=SECONDS[1] * 10**9, to_ns=SECONDS[2] * 10**9)
    found = read([str(tmp_path / "counters.csv")], options)
    assert plain(found) == {"leaf1/eth1": EXPECTED[1:2]}


PANEL = (
    "Time,leaf1 eth1 in,leaf1 eth2 in,leaf1 eth3 in,leaf1 eth4 in\n2026-03-01 12:00:00,1 GB/s,,,\n"
)
REFUSED = {
    "a function": (json.dumps(answer(LABELS, IN)), r"such as rate\(\)(.|\n)*export the counters"),
    "a rule": (answers("instance:ifHCInOctets:rate5m", "instance:ifHCOutOctets:rate5m"), "rates"),
    "unknown metrics": (answers("up", "down"), r"it has up, down(.|\n)*portrcvdata"),
    "rates of gNMI": (json.dumps(event(1, in_rate=5)), "rates, and no counters of bytes"),
    "rates in a table": (rows("time,switch,port,in_bps,out_bps"), "hide resets and holes"),
    "a panel": (PANEL, "a column a port is not read"),
    "formatted": (GOOD.replace(",100,", ",2.9 GB/s,"), "which is a rate"),
    "a column twice": ("time,port,in_bytes,out_bytes,in_bytes\n1,a,1,1,1\n", "more than once"),
    "no columns": ("wann,wo,rein\n1,2,3\n", "no column for time, port, in_bytes"),
    "another unit": (rows("time_ms,switch,port,in_bytes,out_bytes"), "is in ms by its name"),
    "an instant": (answers("ifHCInOctets", "b").replace("matrix", "vector"), "no range of values"),
    "32 bits": (answered(PERFQUERY.replace("extended ", "")), r"32 bits(.|\n)*perfquery -x"),
    "no time": (PERFQUERY.format(sent=1, received=1), "no time before this answer"),
    "notes": ("nothing to read", r"no counters in a format that is known(.|\n)*Prometheus"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_counter_is_refused_with_the_reason(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / "input").write_text(content)
    with pytest.raises(UserError, match=message):
        read([str(tmp_path / "input")], Options())


@pytest.mark.parametrize("damaged", ["1400000002", "1900000002"])
def test_a_time_in_another_year_is_no_reading(tmp_path, damaged):
    """One line with a time has a wrong digit."""
    text = answered(PERFQUERY) + f"{damaged}.5\n" + PERFQUERY.format(sent=1, received=1)
    (tmp_path / "ports.txt").write_text(text)
    readings = read([str(tmp_path / "ports.txt")], Options())
    assert plain(readings, 4) == {"lid12/1": EXPECTED}
    assert readings.set_aside["time far from all others"] == 1


@pytest.mark.parametrize("cut", [PERFQUERY.index("P", 40), PERFQUERY.index("PortX") + 5])
def test_values_after_a_head_that_is_lost_are_of_no_port(tmp_path, cut):
    """The answer of a second port lost its beginning: what is left of it is not the first one's."""
    second = PERFQUERY[cut:].format(sent=10**9, received=10**9)
    (tmp_path / "ports.txt").write_text(answered(PERFQUERY) + second)
    readings = read([str(tmp_path / "ports.txt")], Options())
    assert plain(readings, 4) == {"lid12/1": EXPECTED}
    assert readings.set_aside["values after a head that is lost"] > 0


def test_more_rows_than_fit_are_refused_before_they_are_read(tmp_path):
    """A small file of equal rows stands for 110 million readings."""
    rows_of = 10_000_000
    zeros = np.zeros(rows_of, np.int64)
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows_of, np.int8)), ["a"])
    table = pa.table({"time": zeros, "port": names, "in_bytes": zeros, "out_bytes": zeros})
    path = tmp_path / "big.parquet"
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(11):
            writer.write_table(table)
    with pytest.raises(UserError, match="110,000,000 readings, and at most"):
        read([str(path)], Options())


class Prometheus(BaseHTTPRequestHandler):
    """Answers query_range for two counters."""

    def do_GET(self) -> None:
        name = parse_qs(urlparse(self.path).query)["query"][0]
        values = IN if "In" in name else OUT
        body = json.dumps(answer({**LABELS, "__name__": name}, values)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_server_is_asked_for_both_counters():
    server = HTTPServer(("127.0.0.1", 0), Prometheus)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        options = Options(from_ns=SECONDS[0] * 10**9, to_ns=(SECONDS[-1] + 1) * 10**9)
        assert plain(read([url], options)) == {"leaf1/eth1": EXPECTED}
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_that_does_not_answer_is_an_error():
    with pytest.raises(UserError, match="no answer from Prometheus"):
        read(["http://127.0.0.1:9"], Options())
