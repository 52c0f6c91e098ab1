"""Every reader of text and of networks, with mutated input: records, counts or one clear error."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.attacks.targets import Edit, damaged, edits
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from llmprism.network.hosts import read_hosts
from prism_common.errors import UserError

FIXTURES = Path(__file__).parents[2] / "fixtures"
DAY = 1_767_225_600
LONGEST_S = 20.0  # of one input of a few kB, on a busy machine
FEW = settings(max_examples=15)


def lines(head: str, line: str, count: int = 6) -> str:
    return head + "".join(line.replace("@", str(i)) for i in range(count))


NFDUMP = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n"
FLOW = {"time_flow_start_ns": DAY * 10**9, "bytes": 3, "src_addr": "10.0.0.1", "proto": "TCP",
        "dst_addr": "10.0.0.2", "sampling_rate": 2}  # fmt: skip
ROW = {"TimeReceived": DAY, "SrcAddr": "::ffff:10.0.0.1", "DstAddr": "10.0.0.2", "Bytes": 5,
       "ExporterAddress": "10.0.0.9", "SamplingRate": 1}  # fmt: skip
ZEEK = "#separator \\x09\n#fields\tts\tduration\tproto\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p"
ZEEK += "\torig_ip_bytes\tresp_ip_bytes\n"
TABLES = {
    "csv": lines(
        "start,end,src,dst,bytes,src_port,protocol,path,sampling_rate\n",
        f"{DAY}.@,{DAY}.9,10.0.0.@,fd00::@,100@,4791,udp,a|b,2\n",
    ),
    "table of spaces": lines("start duration src dst bytes\n", "2026-01-01T00:00:0@  1.5 a b 9\n"),
    "nfdump_csv": lines(NFDUMP, "2026-01-01 00:00:0@.250,1.500,6,10.0.0.1,1,10.0.0.2,2,10,150,1\n"),
    "vpc_flow_log": lines("", f"2 1 eni-@ 10.0.0.1 10.0.0.2 1 2 6 3 4 {DAY} {DAY} ACCEPT OK\n"),
    "goflow2": lines("", json.dumps(FLOW) + "\n"),
    "akvorado": lines("", json.dumps(ROW) + "\n"),
    "zeek": lines(ZEEK, f"{DAY}.@\t1.5\ttcp\t10.0.0.1\t1\t10.0.0.2\t2\t999\t7\n"),
}
OPTIONS = st.sampled_from([
    Options(), Options(time_unit="ms"), Options(from_ns=-(10**30), to_ns=10**30),
    Options(mapping={"start": "end"}), Options(separator=" "), Options(idle_gap_ns=1),
])  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@FEW
@given(drawn=edits(), options=OPTIONS, is_named=st.booleans())
def test_a_mutated_table(
    name: str, drawn: list[Edit], options: Options, is_named: bool, tmp_path: Path
) -> None:
    path = tmp_path / "in"
    path.write_bytes(damaged(TABLES[name].encode(), drawn))
    reader = name.replace("table of spaces", "csv") if is_named else None
    began = time.monotonic()
    with suppress(UserError):
        done = ingest([Source(path)], tmp_path / "flows.parquet", options, reader)
        table = pq.read_table(tmp_path / "flows.parquet").to_pandas()
        assert (table["end_ns"] >= table["start_ns"]).all()
        assert (table["bytes"] >= 0).all()
        assert done.notes.records + done.notes.set_aside.total() + len(done.notes.remarks) > 0
    assert time.monotonic() - began < LONGEST_S


@FEW
@given(drawn=edits())
def test_mutated_names_of_hosts(drawn: list[Edit], tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    names = b"10.0.0.1 gpu01 gpu01.example.com\n::1 gpu02-eth0 # comment\n"
    path.write_bytes(damaged(names, drawn))
    with suppress(UserError):
        found = read_hosts(path)
        assert all(name and not name.isspace() and address for name, address in found.items())
