"""Telemetry of kinds that public captures and bug reports show, each with its right value.

The values of ``tests/fixtures/cases`` were read back with tshark 4.0 and nfdump 1.7.1.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ingested import read

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
NOON = 1_772_366_400  # 2026-03-01T12:00:00Z
S, MS = 10**9, 10**6
NOT_ANY = pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
RIGHT, OF_NFCAPD = json.loads((CASES / "right.json").read_text()).values()
"""Values of the records of each file; of those of nfcapd, which only nfdump reads."""


def holds(rows: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    """Check the values that ``right`` names of each record, in any order of equal times."""
    found = [{name: row[name] for name in right[0]} for row in rows]
    assert sorted(map(repr, found)) == sorted(map(repr, right))


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_source_says_is_what_is_written(name: str) -> None:
    rows, done = read(CASES / name)
    holds(rows, RIGHT[name])
    assert set(done.notes.set_aside) <= {"packet that carries no export datagram"}


@NOT_ANY
@pytest.mark.parametrize("name", OF_NFCAPD)
def test_a_time_that_nfdump_does_not_know_is_not_1970(name: str) -> None:
    rows, done = read(CASES / name)
    holds(rows, OF_NFCAPD[name])
    assert not done.notes.set_aside


def test_without_a_start_durations_and_distances_are_exact() -> None:
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
def test_numbers_and_lengths_that_cannot_be_are_set_aside(name: str) -> None:
    reader = "netflow" if name in ("s5729999b.bin", "sdb9bc9cd.bin") else None
    rows, done = read(CASES / "fuzz" / name, reader=reader)
    assert done.notes.set_aside
    assert all(row["bytes"] >= 0 and (row.get("packets") or 0) >= 0 for row in rows)


@NOT_ANY
def test_a_file_at_which_nfdump_hangs_is_given_up() -> None:
    """``nfdump -E`` never ends at it (1.7.1)."""
    rows, done = read(CASES / "fuzz" / "3a3f51b0-in_nfcapd")
    assert rows == []
    assert done.notes.set_aside == {"file not read to its end": 1}
