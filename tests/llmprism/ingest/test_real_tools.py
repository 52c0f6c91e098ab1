"""One transfer, as real tools recorded it: tcpdump, softflowd, nfcapd and nfdump agree.

Two TCP connections (IPv4 and IPv6) over a link between two network namespaces, each 12 bursts of
300 kB, 0.2 s apart, captured with tcpdump 4.99 and exported with softflowd 1.1.0 in NetFlow v5,
v9 and IPFIX to a capture and to nfcapd 1.7.1 (``tests/fixtures/tools``). What softflowd had
not exported at the end, the last burst, is in the captures only.

Another transfer was sampled 1:4 by pmacct 1.7.7 and exported as sFlow.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ingested import read
from llmprism.ingest.points import WITHOUT_PORTS

TOOLS = Path(__file__).parents[2] / "fixtures" / "tools"
MS = 1_000_000
SENDERS = {"10.66.0.1": "10.66.0.2", "fd66::1": "fd66::2"}
BURSTS = 12
VERSIONS = {2055: "NetFlow v5", 9995: "NetFlow v9", 4739: "IPFIX"}


def data_of(rows: list[dict[str, Any]], sender: str) -> pd.DataFrame:
    """The records of one sender's connection, in order of time."""
    frame = pd.DataFrame(rows)
    mine = (frame["src"] == sender) & (frame["dst"] == SENDERS[sender]) & (frame["protocol"] == 6)
    return frame[mine].sort_values("start_ns", ignore_index=True)


def only_port(path: Path, port: int) -> Path:
    """Write the packets of a capture that go to one UDP port."""
    content = (TOOLS / "softflowd.pcap").read_bytes()
    out, place = content[:24], 24
    while place < len(content):
        size = struct.unpack_from("<I", content, place + 8)[0]
        packet = content[place : place + 16 + size]
        place += 16 + size
        if struct.unpack_from(">H", packet, 16 + 14 + 20 + 2)[0] == port:
            out += packet
    path.write_bytes(out)
    return path


@pytest.mark.parametrize("name", ["tcpdump.pcap", "tcpdump-any.pcap"])
@pytest.mark.parametrize("sender", SENDERS)
def test_packets_show_every_burst_with_its_bytes(name: str, sender: str) -> None:
    rows, done = read(TOOLS / name)
    records = data_of(rows, sender)
    bursts = records[records["payload"] >= 300_000]
    assert len(bursts) == BURSTS
    assert bursts["payload"].tolist() == [300_000] * BURSTS
    spacing = bursts["start_ns"].diff().dropna()
    assert ((spacing > 195 * MS) & (spacing < 260 * MS)).all()
    assert set(done.notes.set_aside) <= {"packet that is no IP: Ethernet type 0x0806 (ARP)"}


@pytest.mark.parametrize("port", VERSIONS, ids=VERSIONS.values())
def test_softflowd_agrees_with_the_packets(port: int, tmp_path: Path) -> None:
    packets, _ = read(TOOLS / "tcpdump.pcap")
    rows, done = read(only_port(tmp_path / "export.pcap", port))
    for sender in ["10.66.0.1"] if port == 2055 else SENDERS:  # v5 has no IPv6
        (record,) = data_of(rows, sender).to_dict("records")
        truth = data_of(packets, sender)
        assert record["start_ns"] == pytest.approx(truth["start_ns"].min(), abs=2 * MS)
        during = truth[truth["start_ns"] <= record["end_ns"] + 2 * MS]
        missed = 0.001 if sender == "10.66.0.1" else 0.1  # softflowd lost 6 packets of IPv6
        assert record["bytes"] == pytest.approx(during["bytes"].sum(), rel=missed)
    assert not done.notes.set_aside
    assert WITHOUT_PORTS not in done.notes.remarks  # ICMP has none


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
@pytest.mark.parametrize("name", ["nfcapd.netflow9", "nfcapd.ipfix"])
def test_files_of_nfcapd_hold_the_same(name: str, tmp_path: Path) -> None:
    port = 4739 if "ipfix" in name else 9995
    direct, _ = read(only_port(tmp_path / "export.pcap", port))
    rows, done = read(TOOLS / name)
    assert len(rows) == len(direct)
    assert not done.notes.set_aside
    for sender in SENDERS:
        (record,) = data_of(rows, sender).to_dict("records")
        (other,) = data_of(direct, sender).to_dict("records")
        assert record["bytes"] == other["bytes"]
        length = other["end_ns"] - other["start_ns"]
        assert record["end_ns"] - record["start_ns"] == pytest.approx(length, abs=2 * MS)


def test_first_and_last_packets_that_nfdump_turned_around_are_turned_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nfdump 1.7.1 prints softflowd's IPFIX so; records of one packet do not show it."""
    program = tmp_path / "nfdump"
    text = TOOLS / "nfdump-ipfix.json"
    program.write_text(f"#!/bin/sh\nif [ $1 = -E ]; then exit; fi\ncat {text}\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))
    rows, done = read(TOOLS / "nfcapd.ipfix")
    assert not done.notes.set_aside
    assert any("turned back" in one for one in done.notes.remarks)
    lengths = {row["end_ns"] - row["start_ns"] for row in rows if row["protocol"] == 6}
    assert lengths == {2208 * MS, 2215 * MS}


def test_the_summary_of_nfdump_is_no_record_and_no_error() -> None:
    rows, done = read(TOOLS / "nfdump.csv")
    assert len(rows) == 11
    assert not done.notes.set_aside
    (record,) = data_of(rows, "10.66.0.1").to_dict("records")
    assert (record["bytes"], record["packets"]) == (3_603_544, 68)


def test_samples_of_sflow_estimate_what_the_packets_were() -> None:
    rows, done = read(TOOLS / "pmacct-sflow.pcap.gz")
    packets, _ = read(TOOLS / "pmacct-packets.pcap.gz")
    ends = {"src": "10.67.0.1", "dst": "10.67.0.2", "protocol": 6}
    sent, estimated = (
        pd.DataFrame([row for row in each if ends.items() <= row.items()])
        for each in (packets, rows)
    )
    count = sent["packets"].sum()
    assert estimated["packets"].sum() == pytest.approx(count, abs=4 * 4 * (count / 4) ** 0.5)
    assert estimated["payload"].sum() == pytest.approx(BURSTS * 300_000, rel=0.1)
    assert {row["sampling"] for row in rows} == {4}
    assert not done.notes.set_aside
