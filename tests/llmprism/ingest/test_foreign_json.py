"""Flows as clouds, probes and collectors write them in JSON, and what sflowtool prints.

The values are our own. The names, types and nesting are those of Google's page of VPC Flow Logs
records, Azure's of NSG (version 2) and virtual network flow logs (version 4), nProbe's and pmacct's
manuals, Suricata's EVE flow records, kentik/ktranslate, ipfixcol2's JSON output, Elastic's common
schema, netobserv/flowlogs-pipeline, and the README of sflowtool.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingested import Rows, read, read_text
from llmprism.io.notes import Notes
from prism_common.errors import UserError

FORMATS = Path(__file__).parents[2] / "fixtures" / "formats"
S = 1_781_000_000  # 2026-06-09T10:13:20Z
NS = S * 10**9
TIME, LATER = "2026-06-09T10:13:20Z", "2026-06-09T10:13:23.5Z"
A, B = "10.9.0.1", "10.9.0.2"
THERE, BACK = (A, B, 7_000_000), (B, A, 90_000)


def flows(text: str, **options: Any) -> tuple[list[tuple[Any, ...]], Rows, Notes]:
    """Ends and bytes of the records of a text, all records, and notes."""
    rows, done = read_text(text, **options)
    return sorted((r["src"], r["dst"], r["bytes"]) for r in rows), rows, done.notes


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


NPROBE, KENTIK, SURICATA, IPFIXCOL = (
    json.loads((FORMATS / f"{name}.json").read_text())
    for name in ("nprobe", "kentik", "suricata", "ipfixcol")
)


@pytest.mark.parametrize(
    ("flow", "mapping", "expected"),
    [
        (NPROBE, {}, [THERE]),
        (NPROBE, {"bytes_back": "OUT_BYTES", "packets_back": "OUT_PKTS"}, [THERE, BACK]),
        ({"8": A, "12": B, "1": 7_000_000, "2": 1700, "21": S, "22": S + 3},
         {"src": "8", "dst": "12", "bytes": "1", "start": "21", "end": "22"}, [THERE]),
        (KENTIK, {}, [THERE]),
        (KENTIK, {"sampling": "sample_rate"}, [(A, B, 7_000_000_000)]),
        (SURICATA, {}, [THERE, BACK]),
        (SURICATA, {"bytes": "flow.bytes_toserver", "start": "flow.start"}, [THERE, BACK]),
        (IPFIXCOL, {}, [THERE]),
    ],
)  # fmt: skip
def test_json_of_any_exporter(
    flow: dict[str, Any], mapping: dict[str, str], expected: list[Any]
) -> None:
    for text in (lines(flow), json.dumps([flow], indent=1)):
        found, rows, _ = flows(text, mapping=mapping)
        assert found == sorted(expected)
        assert {row["start_ns"] for row in rows} == {NS}


@pytest.mark.parametrize(
    "name",
    ["argus.csv", "athena.csv", "elastiflow.json", "filebeat.json", "pmacct.csv", "rwcut.txt",
     "suricata-netflow.json", "yaf.json"],
)  # fmt: skip
def test_files_of_collectors_have_both_directions_and_the_start(name: str) -> None:
    rows, _ = read(FORMATS / name)
    assert sorted((row["src"], row["dst"], row["bytes"]) for row in rows) == [THERE, BACK]
    assert {row["start_ns"] for row in rows} == {NS}


@pytest.mark.parametrize(("name", "lacks"), [("hubble.json", "'bytes'"), ("tshark.csv", "'start'")])
def test_files_without_sizes_or_records_name_what_to_map(name: str, lacks: str) -> None:
    with pytest.raises(UserError, match=f"no column was found for {lacks}(.|\n)*--map"):
        read(FORMATS / name)


def test_the_time_of_a_line_is_not_taken_for_the_start() -> None:
    flow = {"@timestamp": LATER, "net": {"began": {"start": TIME}}, "src": A, "dst": B, "bytes": 7}
    assert flows(lines(flow))[1][0]["start_ns"] == NS
    flow["net"] = {"start_of_flow": TIME}
    with pytest.raises(UserError, match=r"time of a line(.|\n)*--map start=net\.start_of_flow"):
        flows(lines(flow))


def test_what_may_be_a_rate_of_sampling_is_remarked_on_and_not_used() -> None:
    _, _, notes = flows(lines(KENTIK))
    assert any("sampling=sample_rate" in line for line in notes.lines())


def test_json_without_what_is_needed_names_its_keys() -> None:
    with pytest.raises(UserError) as caught:
        flows(lines({"who": A, "whom": B, "at": {"begin": S}, "size": 7}))
    assert "at.begin" in str(caught.value)
    assert '{"' not in str(caught.value)


def gcp(reporter: str, sent: int, ends: tuple[str, str] = (A, B), second: float = 0) -> Any:
    connection = {"src_ip": ends[0], "dest_ip": ends[1], "src_port": 40000, "dest_port": 29500}
    payload = {
        "connection": {**connection, "protocol": 6}, "reporter": reporter, "rtt_msec": "1",
        "bytes_sent": str(sent), "packets_sent": str(sent // 1400),
        "start_time": f"2026-06-09T10:13:{20 + second:.6f}Z",
        "end_time": f"2026-06-09T10:13:{25 + second:.6f}Z",
        "src_instance": {"vm_name": "a"}, "dest_instance": {"vm_name": "b"},
    }  # fmt: skip
    return {"insertId": "x", "jsonPayload": payload, "timestamp": "2026-06-09T10:13:31Z"}


def test_a_flow_that_both_ends_report_to_google_counts_once() -> None:
    entries = [
        gcp("DEST", 6_900_000, second=0.1), gcp("SRC", 7_000_000),
        gcp("DEST", 90_000, (B, A)),  # the other machine's subnet has no flow logs
    ]  # fmt: skip
    for text in (lines(*entries), json.dumps(entries, indent=2)):
        found, rows, notes = flows(text)
        assert found == sorted([THERE, BACK])
        assert {row["sampling"] for row in rows} == {10}
        assert notes.set_aside["record of a flow that another observation point counted"] == 1


def test_each_end_in_a_file_of_its_own_counts_once_as_well(tmp_path: Path) -> None:
    for name, entry in (("s0", gcp("SRC", 7_000_000)), ("s1", gcp("DEST", 6_900_000, second=0.1))):
        (tmp_path / f"{name}.json").write_text(lines(entry))
    rows, _ = read(tmp_path / "s0.json", tmp_path / "s1.json")
    assert [row["bytes"] for row in rows] == [7_000_000]


def nsg(*tuples: str, version: int = 2) -> dict[str, Any]:
    inner = [{"mac": "02AA00000001", "flowTuples": list(tuples)}]
    properties = {"Version": version, "flows": [{"rule": "UserRule_x", "flows": inner}]}
    record = {"time": TIME, "macAddress": "02AA00000001", "properties": properties}
    return {"records": [record]}


def vnet(mac: str, *tuples: str) -> dict[str, Any]:
    groups = [{"rule": "DefaultRule_AllowVnetInBound", "flowTuples": list(tuples)}]
    flows = {"flows": [{"aclID": "x", "flowGroups": groups}]}
    return {"time": TIME, "flowLogVersion": 4, "macAddress": mac, "flowRecords": flows}


NSG = [
    f"{S},{A},{B},40000,29500,T,O,A,B,,,,",
    f"{S + 60},{A},{B},40000,29500,T,O,A,C,5000,6000000,1400,80000",
    f"{S + 61},{A},{B},40000,29500,T,O,A,E,700,1000000,100,10000",
    f"{S + 61},{A},{B},40001,22,T,O,D,B,,,,",
]
MS = S * 1000
VNET = [
    f"{MS},{A},{B},40000,29500,6,O,B,NX,0,0,0,0",
    f"{MS + 6000},{A},{B},40000,29500,6,O,C,NX,5000,6000000,1400,80000",
    f"{MS + 9000},{A},{B},40000,29500,6,O,E,NX,700,1000000,100,10000",
    f"{MS + 9000},{A},{B},40001,22,6,O,D,NX,0,0,0,0",
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("log", "seconds"),
    [(nsg(*NSG), [(0, 60), (60, 61)]), ({"records": [vnet("m", *VNET)]}, [(0, 6), (6, 9)])],
)
def test_tuples_of_azure_count_since_the_one_before(
    log: dict[str, Any], seconds: list[tuple[int, int]], indent: int | None
) -> None:
    found, rows, notes = flows(json.dumps(log, indent=indent))
    totals = {ends: sum(n for *e, n in found if tuple(e) == ends) for ends in ((A, B), (B, A))}
    assert totals == {(A, B): 7_000_000, (B, A): 90_000}
    times = {((row["start_ns"] - NS) / 1e9, (row["end_ns"] - NS) / 1e9) for row in rows}
    assert times == set(seconds)
    assert notes.set_aside == {"flow that Azure denied": 1}


def test_both_interfaces_of_a_flow_of_azure_count_once() -> None:
    other = [one.replace(",O,", ",I,") for one in VNET]
    found, *_ = flows(json.dumps({"records": [vnet("m1", *VNET), vnet("m2", *other)]}))
    assert sum(nbytes for src, _, nbytes in found if src == A) == 7_000_000


def test_flow_logs_of_azure_without_counts_are_refused() -> None:
    with pytest.raises(UserError, match=r"version 1, which have no counts[\s\S]*version 2"):
        flows(json.dumps(nsg(f"{S},{A},{B},40000,443,T,O,A", version=1)))


def test_netobserv_multiplies_by_its_sampling_and_counts_each_flow_once() -> None:
    flow = {
        "AgentIP": "10.1.1.1", "SrcAddr": A, "DstAddr": B, "SrcPort": 40000, "DstPort": 4791,
        "Proto": 17, "Bytes": 140_000, "Packets": 100, "Sampling": 50, "Duplicate": False,
        "TimeFlowStartMs": S * 1000, "TimeFlowEndMs": S * 1000 + 3500, "TimeReceived": S + 5,
    }  # fmt: skip
    again = {**flow, "Duplicate": True}
    other = {**flow, "AgentIP": "10.1.1.2", "TimeFlowStartMs": S * 1000 + 1}
    found, rows, _ = flows(lines(flow, again, other))
    assert found == [THERE]
    assert [(row["sampling"], row["path"]) for row in rows] == [(50, "?")]
    (unsampled,), rows, _ = flows(lines({**flow, "Sampling": 0}))
    assert unsampled == (A, B, 140_000)


def test_tags_and_values_of_sflowtool() -> None:
    found, rows, _ = flows((FORMATS / "sflowtool.txt").read_text())
    assert found == [(A, B, 1_000_000)]  # 1,018 - 4 - 14 bytes of one packet in a thousand
    assert [(row["start_ns"], row["sampling"], row["packets"]) for row in rows] == [
        (NS, 1000, 1000)
    ]


def test_lines_of_sflowtool_without_times_are_refused_with_the_way() -> None:
    line = f"FLOW,10.1.1.1,5,7,020000000001,020000000002,0x0800,10,10,{A},{B},17,0x00,64"
    with pytest.raises(UserError, match=r"no times[\s\S]*tcpdump -w"):
        flows(f"{line},40000,4791,0x00,1018,1000,1000\n" * 3)
