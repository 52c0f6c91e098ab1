"""Telemetry of kinds that public captures and bug reports show, each with its right value.

The values of ``tests/fixtures/cases`` were read back with tshark 4.0 and nfdump 1.7.1.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Read = Callable[..., Any]
CASES = Path(__file__).parents[2] / "fixtures" / "cases"
NOON = 1_772_366_400  # 2026-03-01T12:00:00Z
S, MS = 10**9, 10**6
THERE = {"src": "192.0.2.1", "dst": "192.0.2.2"}
BACK = {"src": "192.0.2.2", "dst": "192.0.2.1"}
LASTS_10_MS = {"start_ns": NOON * S, "end_ns": NOON * S + 10 * MS}
ROCE = {**THERE, "dst_qp": 17}
NOT_ANY = pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")

RIGHT: dict[str, list[dict[str, Any]]] = {
    "01-export-port-not-listed/port9991.pcap": [
        {**THERE, "bytes": 123_456, "packets": 100, **LASTS_10_MS}
    ],
    "01-export-port-not-listed/arp-first.pcap": [
        {**THERE, "bytes": 123_456, "packets": 100, **LASTS_10_MS}
    ],
    "02-biflow-reverse-counters/biflow.ipfix": [
        {**THERE, "src_port": 1000, "dst_port": 2000, "bytes": 1_000, "packets": 10},
        {**BACK, "src_port": 2000, "dst_port": 1000, "bytes": 90_000, "packets": 60},
    ],
    "04-sampling-size-and-population/population.ipfix": [
        {**THERE, "bytes": 256_000, "packets": 2_560, "sampling": 256}
    ],
    "06-init-time-in-the-record/init.ipfix": [
        {**THERE, "bytes": 90_000, "start_ns": (NOON - 3595) * S, "end_ns": (NOON - 3594) * S}
    ],
    "08-inner-and-outer-headers/tunnel.ipfix": [
        {**THERE, "src_port": 1111, "dst_port": 2222, "protocol": 17, "bytes": 1_000},
        {**THERE, "src_port": 2222, "dst_port": 1111, "protocol": 17, "bytes": 3_000},
    ],
    "09-nsel-and-initiator-octets/nsel.v9": [
        {**THERE, "bytes": 1_000, "start_ns": (NOON - 5) * S, "end_ns": NOON * S},
        {**BACK, "bytes": 90_000, "start_ns": (NOON - 5) * S, "end_ns": NOON * S},
    ],
    **{
        f"11-reduced-size-integers/size{size}.ipfix": [{**THERE, "bytes": 123_456, "packets": 100}]
        for size in (3, 5, 6, 7)
    },
    "13-mpls-and-other-tags/mpls.pcap": [{**ROCE, "bytes": 2_136, "packets": 2}],
    "13-mpls-and-other-tags/pppoe.pcap": [{**ROCE, "bytes": 1_068, "packets": 1}],
    "15-infiniband-links/ipoib.pcap": [{**ROCE, "bytes": 1_068}],
    "15-infiniband-links/rocev1.pcap": [{**ROCE, "bytes": 1_080, "payload": 1_024}],
}
OF_NFCAPD = {
    "24-nfcapd-unset-times/created-only.nfcapd": [
        {**THERE, "bytes": 1_000, "start_ns": (NOON - 5) * S, "end_ns": (NOON - 5) * S}
    ],
    "24-nfcapd-unset-times/no-init.nfcapd": [
        {  # "received" in nfdump's JSON
            **THERE,
            "bytes": 90_000,
            "start_ns": 1_795_677_171_624 * MS,
            "end_ns": 1_795_677_171_624 * MS,
        }
    ],
}


def holds(rows: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Check the values that ``right`` names of each record, in any order of equal times."""
    found = [{name: row[name] for name in right[0]} for row in rows]
    assert sorted(map(repr, found)) == sorted(map(repr, right))


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_source_says_is_what_is_written(name: str, read: Read) -> None:
    rows, done = read(CASES / name)
    holds(rows, RIGHT[name])
    assert set(done.notes.set_aside) <= {"packet that carries no export datagram"}


@NOT_ANY
@pytest.mark.parametrize("name", OF_NFCAPD)
def test_a_time_that_nfdump_does_not_know_is_not_1970(name: str, read: Read) -> None:
    rows, done = read(CASES / name)
    holds(rows, OF_NFCAPD[name])
    assert not done.notes.set_aside


def test_without_a_start_durations_and_distances_are_exact(read: Read) -> None:
    rows, done = read(CASES / "07-uptime-without-init-time" / "uptime.ipfix")
    first, second = sorted(rows, key=lambda row: row["start_ns"])
    assert (first["bytes"], first["end_ns"] - first["start_ns"]) == (90_000, 1_000 * MS)
    assert (second["bytes"], second["end_ns"] - second["start_ns"]) == (50_000, 2_500 * MS)
    assert second["start_ns"] - first["start_ns"] == 2_000 * MS
    assert second["end_ns"] <= (NOON + 4) * S  # its export
    assert any("estimated" in one for one in done.notes.remarks)


FUZZED = ["5195848c-in.pcapng", "7418523b-in.pcapng", "s5729999b.bin", "sc17da57e.bin"]
FUZZED += ["scd650481.bin", "sdb9bc9cd.bin", "sf0543b90.bin"]


@pytest.mark.parametrize("name", FUZZED)
def test_numbers_and_lengths_that_cannot_be_are_set_aside(name: str, read: Read) -> None:
    reader = "netflow" if name in ("s5729999b.bin", "sdb9bc9cd.bin") else None
    rows, done = read(CASES / "fuzz" / name, reader=reader)
    assert done.notes.set_aside
    assert all(row["bytes"] >= 0 and (row.get("packets") or 0) >= 0 for row in rows)


@NOT_ANY
def test_a_file_at_which_nfdump_hangs_is_given_up(read: Read) -> None:
    """``nfdump -E`` never ends at it (1.7.1)."""
    rows, done = read(CASES / "fuzz" / "3a3f51b0-in_nfcapd")
    assert rows == []
    assert done.notes.set_aside == {"file not read to its end": 1}
