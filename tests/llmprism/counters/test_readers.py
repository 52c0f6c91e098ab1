"""Every format gives the same readings; what has no counters is refused with the reason."""

from __future__ import annotations

import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import Readings
from prism_common.errors import UserError

SECONDS = [1_700_000_000, 1_700_000_001, 1_700_000_002]
IN, OUT = [100, 300, 600], [10, 30, 60]


def plain(readings: Readings) -> dict[str, list[tuple[int, int, int]]]:
    """Time [s], bytes in and out of each port."""
    return {
        port.port: [
            (int(t) // 10**9, int(i), int(o))
            for t, i, o in zip(
                port.time_ns, port.values["in_bytes"], port.values["out_bytes"], strict=True
            )
        ]
        for port in readings.ports
    }


EXPECTED = [(t, i, o) for t, i, o in zip(SECONDS, IN, OUT, strict=True)]


def rows(head: str, times=SECONDS, port="leaf1,eth1") -> str:
    lines = [f"{t},{port},{i},{o}" for t, i, o in zip(times, IN, OUT, strict=True)]
    return "\n".join([head, *lines]) + "\n"


@pytest.mark.parametrize(
    ("head", "times"),
    [
        ("time,switch,port,in_bytes,out_bytes", SECONDS),
        ("timestamp,device,ifName,ifHCInOctets,ifHCOutOctets", [t * 1000 for t in SECONDS]),
        ("time,switch,port,in_octets,out_octets", [f"2023-11-14T22:13:2{n}Z" for n in range(3)]),
    ],
)
def test_a_csv_is_read_by_its_names(tmp_path, head, times):
    path = tmp_path / "counters.csv"
    path.write_text(rows(head, times))
    assert plain(read([str(path)], Options())) == {"leaf1/eth1": EXPECTED}


def test_names_of_a_nic_are_seen_from_the_switch(tmp_path):
    path = tmp_path / "nic.csv"
    path.write_text(rows("time,host,port,tx_bytes,rx_bytes"))
    assert plain(read([str(path)], Options())) == {"leaf1/eth1": EXPECTED}


def test_columns_can_be_named(tmp_path):
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table({"wann": SECONDS, "wo": ["p"] * 3, "rein": IN, "raus": OUT}), path)
    names = {"time": "wann", "port": "wo", "in_bytes": "rein", "out_bytes": "raus"}
    assert plain(read([str(path)], Options(mapping=names))) == {"p": EXPECTED}
    with pytest.raises(UserError, match=r"no column for time, port, in_bytes"):
        read([str(path)], Options())


def test_rows_that_cannot_be_read_are_counted(tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text(
        rows("time,switch,port,in_bytes,out_bytes") + "1700000003,leaf1,eth1,,70\n17000"
    )
    readings = read([str(path)], Options())
    assert plain(readings) == {"leaf1/eth1": EXPECTED}
    assert readings.set_aside == {"rows without a time, a port or a number": 1}


def test_differences_are_known_by_their_falls(tmp_path):
    path = tmp_path / "differences.csv"
    lines = [f"{1_700_000_000 + n},p,{(n % 5) * 100},{(n % 7) * 10}" for n in range(60)]
    path.write_text("\n".join(["time,port,in_bytes,out_bytes", *lines]))
    assert read([str(path)], Options()).form == "differences"
    assert read([str(path)], Options(form="cumulative")).form == "cumulative"


def answer(metric: dict[str, str], values: list[int]) -> dict:
    pairs = [[t, str(v)] for t, v in zip(SECONDS, values, strict=True)]
    result = [{"metric": metric, "values": pairs}]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


LABELS = {"instance": "leaf1", "ifName": "eth1"}


def test_answers_of_prometheus_are_read(tmp_path):
    path = tmp_path / "answers.json"
    both = [
        answer({**LABELS, "__name__": f"ifHC{side}Octets"}, values)
        for side, values in (("In", IN), ("Out", OUT))
    ]
    path.write_text("\n".join(map(json.dumps, both)))
    assert plain(read([str(path)], Options())) == {"leaf1/eth1": EXPECTED}


def test_rates_of_prometheus_are_refused(tmp_path):
    path = tmp_path / "rate.json"
    path.write_text(json.dumps(answer(LABELS, IN)))  # rate() drops the name
    with pytest.raises(UserError, match=r"a function, such as rate\(\)(.|\n)*export the counters"):
        read([str(path)], Options())


class Prometheus(BaseHTTPRequestHandler):
    """Answers query_range for two counters."""

    def do_GET(self) -> None:
        asked = parse_qs(urlparse(self.path).query)
        name = asked["query"][0]
        content = answer({**LABELS, "__name__": name}, IN if "In" in name else OUT)
        body = json.dumps(content).encode()
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


PERFQUERY = """\
{time}.000000000
# Port extended counters: Lid 12 port 1 (CapMask: 0x5300)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................{sent}
PortRcvData:.....................{received}
PortXmitPkts:....................7
PortRcvPkts:.....................7
"""


def test_words_of_infiniband_are_four_bytes(tmp_path):
    path = tmp_path / "perf.txt"
    parts = [
        PERFQUERY.format(time=t, sent=i // 4, received=o // 2)
        for t, i, o in zip(SECONDS, IN, OUT, strict=True)
    ]
    path.write_text("".join(parts))
    assert plain(read([str(path)], Options())) == {
        "lid12/1": [(t, i, 2 * o) for t, i, o in EXPECTED]
    }


def test_the_short_counters_of_infiniband_are_refused(tmp_path):
    path = tmp_path / "perf.txt"
    text = PERFQUERY.format(time=SECONDS[0], sent=1, received=1)
    path.write_text(text.replace("extended counters", "counters"))
    with pytest.raises(UserError, match=r"32 bits(.|\n)*perfquery -x"):
        read([str(path)], Options())


def test_an_answer_without_a_time_is_an_error(tmp_path):
    path = tmp_path / "perf.txt"
    path.write_text(PERFQUERY.format(time="", sent=1, received=1).split("\n", 1)[1])
    with pytest.raises(UserError, match="no time before this answer"):
        read([str(path)], Options())


COUNTERS = "/interfaces/interface/state/counters"


def dashed(name: str) -> str:
    return name.replace("_", "-")


def event(time: int, **values: int) -> dict:
    return {"name": "counters", "timestamp": time * 10**9,
            "tags": {"interface_name": "eth1", "source": "leaf1:57400"},
            "values": {f"{COUNTERS}/{dashed(n)}": v for n, v in values.items()}}  # fmt: skip


def update(time: int, **values: int) -> dict:
    path = "interfaces/interface[name=eth1]/state/counters"
    named = {dashed(n): v for n, v in values.items()}
    return {"source": "leaf1:57400", "timestamp": time * 10**9,
            "updates": [{"Path": path, "values": {COUNTERS.strip("/"): named}}]}  # fmt: skip


@pytest.mark.parametrize("message", [event, update, lambda *a, **k: [event(*a, **k)]])
def test_messages_of_gnmic_are_read_in_both_formats(tmp_path, message):
    path = tmp_path / "gnmic.json"
    lines = [message(t, in_octets=i, out_octets=o) for t, i, o in EXPECTED]
    path.write_text("\n".join(map(json.dumps, lines)) + "\nnot a message\n")
    readings = read([str(path)], Options())
    assert plain(readings) == {"leaf1/eth1": EXPECTED}
    assert readings.set_aside == {"lines that are no message": 1}


def test_a_counter_that_did_not_change_keeps_its_value(tmp_path):
    path = tmp_path / "changes.json"
    first, *rest = EXPECTED
    lines = [event(first[0], in_octets=first[1], out_octets=first[2])]
    lines += [event(t, in_octets=i) for t, i, _ in rest]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert plain(read([str(path)], Options())) == {
        "leaf1/eth1": [(t, i, first[2]) for t, i, _ in EXPECTED]
    }


def test_rates_of_a_switch_are_refused(tmp_path):
    path = tmp_path / "rates.json"
    path.write_text(json.dumps(event(SECONDS[0], in_rate=5, out_rate=7)))
    with pytest.raises(UserError, match="rates, and no counters of bytes"):
        read([str(path)], Options())


def test_rates_in_a_table_are_refused(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text(rows("time,switch,port,in_bps,out_bps"))
    with pytest.raises(UserError, match=r"in_bps, out_bps: rates(.|\n)*hide resets and holes"):
        read([str(path)], Options())


HEAD = "SaveTime,SaveTimeUTC,DeviceName,PortName,InPkts,InOctets,OutPkts,OutOctets,InRatio,OutRatio"


def traces(folder, switch="NH-ROCE-Leaf-1.GPU.S9825", ports=("1:1", "1:2", "31")):
    """A folder as the traces have it, with two ports of servers and one of a spine."""
    below = folder / "trafficinfo" / "2024052400" / "NH-ROCE-Leaf-1_GPU_S9825"
    below.mkdir(parents=True)
    for port in ports:
        name = f"TwoHundredGigE1/0/{port}"
        lines = [
            f"2024/05/24 星期五 00:00:00.914,{t}914,{switch},{name},3,{i},3,{o},2.7,2.7"
            for t, i, o in EXPECTED
        ]
        path = below / f"Leaf-1_{port.replace(':', '_')}.csv"
        path.write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")
    names = ["accessport", "serverIP", "nicname", "portname", "switchIP", "switchname", "sysname"]
    book = [names] + [
        [f"TwoHundredGigE1/0/{p}", f"10.0.0.{n}", "ens11np0", "", "10.1.1.1", switch, f"GPU-{n}"]
        for n, p in enumerate(ports[:2])
    ]
    workbook(folder / "cluster_2000_A100.xlsx", book)


def workbook(path, lines) -> None:
    texts = sorted({text for line in lines for text in line})
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    cells = [
        "".join(
            f'<c r="{chr(65 + c)}{r}" t="s"><v>{texts.index(text)}</v></c>'
            for c, text in enumerate(line)
            if text
        )
        for r, line in enumerate(lines, 1)
    ]
    sheet = "".join(f'<row r="{r}">{row}</row>' for r, row in enumerate(cells, 1))
    with zipfile.ZipFile(path, "w") as book:
        shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
        book.writestr("xl/sharedStrings.xml", f"<sst {space}>{shared}</sst>")
        book.writestr(
            "xl/worksheets/sheet1.xml",
            f"<worksheet {space}><sheetData>{sheet}</sheetData></worksheet>",
        )


def test_the_folder_of_zhejiang_lab_is_read_with_its_map(tmp_path):
    traces(tmp_path)
    readings = read([str(tmp_path)], Options())
    assert readings.form == "differences"
    assert plain(readings) == {"10.0.0.0": EXPECTED, "10.0.0.1": EXPECTED}
    assert readings.set_aside == {"ports that the map does not have": 1}


def test_a_time_outside_is_left_out(tmp_path):
    path = tmp_path / "counters.csv"
    path.write_text(rows("time,switch,port,in_bytes,out_bytes"))
    options = Options(from_ns=SECONDS[1] * 10**9, to_ns=SECONDS[2] * 10**9)
    assert plain(read([str(path)], options)) == {"leaf1/eth1": EXPECTED[1:2]}


def test_an_unknown_format_is_an_error_that_lists_the_known_ones(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to read")
    with pytest.raises(UserError, match=r"no counters in a format that is known(.|\n)*Prometheus"):
        read([str(path)], Options())
