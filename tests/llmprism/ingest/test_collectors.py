"""Outputs of Zeek, goflow2 and Akvorado in the forms that their sources document.

The values are our own. The names, types and notations are those of the programs' repositories:

- Zeek: the logs of ``testing/btest/Baseline`` (unset ``-``, ``scope_sep``, ``field_name_map``, no
  ``orig_ip_bytes``), and the options of ``scripts/base/frameworks/logging/writers/ascii.zeek``
- goflow2: ``format/json/json.go`` and ``format/common/text.go`` of version 1,
  ``producer/proto/messages.go`` and ``cmd/goflow2/mapping.yaml`` of version 2
- Akvorado: ``outlet/core/root_test.go`` and ``common/schema/insert_test.go``
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goflow2_messages import after_length, message
from ingested import read, read_text

S = 1_767_225_600  # 2026-01-01T00:00:00Z
NS = S * 10**9
ZEEK = {
    "ts": f"{S}.500000", "uid": "CHhAvVGS1DHFjwGM9", "id.orig_h": "10.0.0.1", "id.orig_p": "1000",
    "id.resp_h": "10.0.0.2", "id.resp_p": "2000", "proto": "tcp", "service": "-",
    "duration": "0.463113", "orig_bytes": "120", "resp_bytes": "0", "conn_state": "SF",
    "local_orig": "T", "local_resp": "T", "missed_bytes": "0", "history": "ShADad",
    "orig_pkts": "5", "orig_ip_bytes": "332", "resp_pkts": "4", "resp_ip_bytes": "220",
    "tunnel_parents": "(empty)", "ip_proto": "6",
}  # fmt: skip


def log(rows: list[dict[str, str]], path: str = "conn", between: str = "\t", no: str = "-") -> str:
    """Return a log as Zeek's ASCII writer formats it."""
    escaped = "".join(f"\\x{ord(letter):02x}" for letter in between)
    head = {"set_separator": ",", "empty_field": "(empty)", "unset_field": no, "path": path}
    lines = [f"#separator {escaped}", *(f"#{key}{between}{value}" for key, value in head.items())]
    lines += [f"#open{between}2026-01-01-00-00-00", between.join(["#fields", *rows[0]])]
    lines += [between.join(row.values()) for row in rows]
    return "\n".join([*lines, f"#close{between}2026-01-01-01-00-00"]) + "\n"


def flows(text: str, **options: Any) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Source, bytes, start and end of the records of a text, and what was set aside."""
    rows, done = read_text(text, **options)
    found = [(row["src"], row["bytes"], row["start_ns"], row["end_ns"]) for row in rows]
    return sorted(found), dict(done.notes.set_aside)


BOTH = [
    ("10.0.0.1", 332, NS + 500_000_000, NS + 963_113_000),
    ("10.0.0.2", 220, NS + 500_000_000, NS + 963_113_000),
]


def zeek_json(**changed: Any) -> dict[str, Any]:
    """Return the connection as Zeek's JSON writer types it; an unset field is left out."""
    kept = {key: value for key, value in ZEEK.items() if value != "-"}
    numbers = {key: float(value) for key, value in kept.items() if value.replace(".", "").isdigit()
               and "_h" not in key}  # fmt: skip
    return kept | {"tunnel_parents": []} | numbers | changed


@pytest.mark.parametrize(
    "text",
    [
        log([ZEEK]),
        log([ZEEK | {"service": "NONE"}], between=",", no="NONE"),
        log([{key.replace(".", "_"): value for key, value in ZEEK.items()}]),
        json.dumps(zeek_json()) + "\n",
        json.dumps(zeek_json(ts=S * 1000 + 500)) + "\n",
        json.dumps(zeek_json(ts="2026-01-01T00:00:00.500000Z", _path="conn")) + "\n",
        json.dumps({key.replace(".", "_"): value for key, value in zeek_json().items()}) + "\n",
    ],
    ids=["tabs", "commas", "scope", "json", "json in ms", "json in ISO 8601", "json, scope"],
)
def test_every_form_of_a_zeek_connection_is_read(text: str) -> None:
    assert flows(text) == (BOTH, {})


@pytest.mark.parametrize("form", ["tabs", "json"])
def test_a_line_of_zeek_is_a_record_a_direction_and_a_broken_one_is_counted(
    form: str, tmp_path: Path
) -> None:
    text = f"{log([ZEEK])}x\ty\n" if form == "tabs" else f"{json.dumps(zeek_json())}\nno json\n"
    (tmp_path / "conn.log").write_text(text)
    rows, done = read(tmp_path / "conn.log")
    names = ("dst", "src_port", "packets", "payload", "protocol")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("10.0.0.2", 1000, 5, 120, 6),
        ("10.0.0.1", 2000, 4, 0, 6),
    ]
    assert done.notes.set_aside.total() == 1


def test_a_zeek_log_without_sizes_of_packets_has_those_of_payload() -> None:
    unset = dict.fromkeys(("orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"), "-")
    (only,), aside = flows(log([ZEEK | unset]))
    assert only[:2] == ("10.0.0.1", 120)
    assert not aside


def test_another_log_of_zeek_is_counted_and_is_no_traffic() -> None:
    dns = {key: ZEEK[key] for key in list(ZEEK)[:7]} | {"query": "node-1"}
    assert flows(log([dns], path="dns")) == ([], {"line of another log of Zeek": 1})
    mixed = "\n".join(map(json.dumps, [zeek_json(_path="conn"), zeek_json(_path="dns")]))
    assert flows(mixed) == (BOTH, {"line of another log of Zeek": 1})


GOFLOW = {"SamplerAddress": "192.0.2.1", "SamplingRate": 0, "Bytes": 1500, "Packets": 2,
          "SrcAddr": "10.0.0.1", "DstAddr": "10.0.0.2", "Etype": 2048, "Proto": 6, "SrcPort": 1,
          "DstPort": 2, "BgpCommunities": [], "TimeReceived": S + 9}  # fmt: skip
GOFLOW2 = {"sampler_address": "192.0.2.1", "sampling_rate": 0, "bytes": 1500, "packets": 2,
           "src_addr": "10.0.0.1", "dst_addr": "10.0.0.2", "etype": "IPv4", "proto": "TCP",
           "src_port": 1, "dst_port": 2}  # fmt: skip


@pytest.mark.parametrize(
    "flow",
    [
        GOFLOW | {"TimeFlowStart": S, "TimeFlowEnd": S + 1},
        GOFLOW | {"TimeFlowStart": S, "TimeFlowEnd": S + 1, "TimeFlowStartMs": S * 1000,
                  "TimeFlowEndMs": S * 1000 + 1000},
        GOFLOW | {"TimeFlowStart": S, "TimeFlowEnd": S + 1, "TimeFlowStartMs": 0,
                  "TimeFlowEndMs": 0},
        GOFLOW2 | {"time_flow_start_ms": S * 1000, "time_flow_end_ms": S * 1000 + 1000},
        GOFLOW2 | {"time_flow_start_ns": NS, "time_flow_end_ns": NS + 10**9},
        GOFLOW2 | {"time_flow_start_ns": "2026-01-01T00:00:00Z",
                   "time_flow_end_ns": "2026-01-01T00:00:01Z"},
    ],
    ids=["1 in s", "1 in ms", "1 of sFlow", "1 by tag", "2", "2 as datetimenano"],
)  # fmt: skip
def test_every_version_of_goflow2_is_read(flow: dict[str, Any]) -> None:
    text = json.dumps({"type": "X", "Type": "X", **flow}) + "\n"
    assert flows(text) == ([("10.0.0.1", 1500, NS, NS + 10**9)], {})


def test_a_goflow2_flow_without_times_is_at_its_arrival() -> None:
    flow = GOFLOW | {"TimeFlowStart": 0, "TimeFlowEnd": 0}
    at = (S + 9) * 10**9
    assert flows(json.dumps(flow)) == ([("10.0.0.1", 1500, at, at)], {})


def test_counts_of_goflow2_are_scaled_and_marked(tmp_path: Path) -> None:
    flow = GOFLOW2 | {"sampling_rate": 100, "time_flow_start_ns": NS, "time_flow_end_ns": NS}
    (tmp_path / "in").write_text(json.dumps(flow))
    (row,), done = read(tmp_path / "in")
    assert (row["bytes"], row["packets"], row["sampling"], row["protocol"]) == (
        150_000, 200, 100, 6,
    )  # fmt: skip
    assert done.seen.sampling == 100


def test_a_time_of_goflow2_can_be_mapped() -> None:
    flow = GOFLOW2 | {"time_flow_start_ns": NS, "time_flow_end_ns": NS, "arrival": S + 5}
    mapped = {"start": "arrival", "end": "arrival"}
    assert flows(json.dumps(flow), mapping=mapped)[0][0][2:] == (NS + 5 * 10**9,) * 2


AKVORADO = {"SamplingRate": 1000, "ExporterAddress": "::ffff:192.0.2.1", "InIf": 4, "NextHop": "",
            "SrcAddr": "::ffff:10.0.0.1", "DstAddr": "::ffff:10.0.0.2"}  # fmt: skip


@pytest.mark.parametrize(
    "flow",
    [
        AKVORADO | {"TimeReceived": S, "OtherColumns": {"Bytes": 6765, "Packets": 4, "EType": 2048,
                                                        "Proto": 6, "SrcPort": 1, "DstPort": 2}},
        AKVORADO | {"TimeReceived": "2026-01-01 00:00:00", "Bytes": "6765", "Packets": "4",
                    "Proto": 6, "DstASPath": [65400]},
    ],
    ids=["of the outlet", "of ClickHouse"],
)  # fmt: skip
def test_both_forms_of_akvorado_are_read(flow: dict[str, Any]) -> None:
    assert flows(json.dumps(flow) + "\n") == ([("10.0.0.1", 6_765_000, NS, NS)], {})


def test_flows_of_akvorado_without_sizes_are_counted() -> None:
    text = json.dumps(AKVORADO | {"TimeReceived": S, "OtherColumns": None})
    assert flows(text) == ([], {"no size, or one that cannot be read": 1})


def test_binary_messages_of_goflow2(tmp_path: Path) -> None:
    own = {"type": 4, "time_received_ns": NS + 9, "sequence_num": 1, "sampling_rate": 10,
           "sampler_address": "192.0.2.1", "time_flow_start_ns": NS, "time_flow_end_ns": NS + 5,
           "bytes": 1_500, "packets": 3, "src_addr": "10.0.0.1", "dst_addr": "10.0.0.2",
           "proto": 17, "src_port": 50_000, "dst_port": 4_791}  # fmt: skip
    arrival = {name: one for name, one in own.items() if not name.startswith("time_flow")}
    arrival |= {"src_addr": "2001:db8::1", "sampling_rate": 1}
    parts = [after_length(message(**own)), after_length(message(**arrival))]
    (tmp_path / "in").write_bytes(b"".join(parts) + parts[0][:20])
    rows, done = read(tmp_path / "in")
    assert [(row["src"], row["bytes"], row["packets"]) for row in rows] == [
        ("10.0.0.1", 15_000, 30),
        ("2001:db8::1", 1_500, 3),
    ]
    first, second = rows
    assert (first["dst"], first["src_port"], first["dst_port"]) == ("10.0.0.2", 50_000, 4_791)
    assert (first["protocol"], first["start_ns"], first["end_ns"]) == (17, NS, NS + 5)
    assert second["start_ns"] == second["end_ns"] == NS + 9
    assert dict(done.notes.set_aside) == {"file not read to its end": 1}


def test_text_that_begins_like_a_binary_message_is_a_table(tmp_path: Path) -> None:
    for first in ("src", "start_ns", "end_ns"):
        names = [first, *({"src", "dst", "start_ns", "end_ns", "bytes"} - {first})]
        values = {"src": "10.0.0.1", "dst": "10.0.0.2", "bytes": 1, "start_ns": NS, "end_ns": NS}
        lines = [",".join(names), *[",".join(str(values[name]) for name in names)] * 60]
        (tmp_path / first).write_text("\n".join(lines) + "\n")
        assert len(read(tmp_path / first)[0]) == 60
