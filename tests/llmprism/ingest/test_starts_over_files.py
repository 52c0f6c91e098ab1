"""NetFlow v9 in many small files: one estimate of an exporter's start, whatever its clock does."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from datagrams import FIELDS, NOW_S, V9_TIMES, S, a_set, captured, record, template, v9
from llmprism.ingest.ingesting import records_of
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from llmprism.ingest.starts import ExporterMemory, Starts
from llmprism.io.notes import Notes

MS = 1_000_000
BOOT_NS = NOW_S * S + 337 * MS  # on the collector's clock
FILES, PER_FILE = 120, 8  # a file a second
ROW = pd.Series({"src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 1, "dst_port": 2,
                 "protocol": 6, "bytes": 100, "packets": 1})  # fmt: skip
HEAD = (0, "192.0.2.1", v9(a_set(0, template(FIELDS | V9_TIMES)), uptime=0))


def sent(offset_ns: int, drift: float, seed: int = 1) -> Iterator[list[tuple[int, str, bytes]]]:
    """What each file has of an exporter: every datagram has one flow of the 100 ms before it."""
    draw = np.random.default_rng(seed)
    for number in range(FILES):
        file = [HEAD]
        for part in sorted(draw.uniform(0, 1, PER_FILE)):
            uptime_ns = round((60 + number + part) * S)
            clock_ns = BOOT_NS + offset_ns + round(uptime_ns * (1 + drift))
            uptime = uptime_ns // MS
            body = record(ROW, struct.pack(">I", uptime - 100), struct.pack(">I", uptime))
            content = v9(a_set(256, body), uptime=uptime, seconds=clock_ns // S)
            late_ns = round(draw.exponential(0.3 * MS)) + (300 * MS if draw.random() < 0.02 else 0)
            file.append((BOOT_NS + uptime_ns + late_ns, "192.0.2.1", content))
        yield file


def ends(files: list[list[tuple[int, str, bytes]]], folder: Path, restart_at: int) -> list[int]:
    """Ends of flows [ns], read file by file; the reader starts again once, from what is stored."""
    memory, found = ExporterMemory(), []
    for number, file in enumerate(files):
        if number == restart_at:
            rows = json.loads(json.dumps(memory.starts.stored()))
            memory = ExporterMemory(Starts.restored(rows))
        path = captured(folder / f"{number}.pcap", file, 2055)
        for table in records_of([Source(path)], Options(exporters=memory), Notes()):
            found += table["end_ns"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("offset_ns", "drift"),
    [(0, 0.0), (400 * MS, 0.0), (-700 * MS, 0.0), (540 * S, 0.0), (-40 * S, 2e-5), (0, -2e-5)],
)
def test_flows_end_when_they_did_by_one_clock(tmp_path: Path, offset_ns: int, drift: float) -> None:
    files = [*sent(offset_ns, drift)]
    found = np.array(ends(files, tmp_path, restart_at=FILES // 2))
    draw = np.random.default_rng(1)
    true = []
    for number in range(FILES):
        parts = sorted(draw.uniform(0, 1, PER_FILE))
        for _ in parts:
            draw.exponential(0.3 * MS)
            draw.random()
        true += [BOOT_NS + round((60 + number + part) * S) for part in parts]
    away_ms = (found - np.array(true)) / MS
    settled = away_ms[len(away_ms) // 4 :]
    assert np.ptp(settled) < 12, "the estimate of the start jumps"
    expected_ms = 0 if abs(offset_ns) < 50 * MS else offset_ns / MS
    drifted_ms = abs(drift) * (60 + FILES) * 1e3
    assert abs(np.median(settled) - expected_ms) < 5 + drifted_ms


def test_a_datagram_of_before_a_restart_that_comes_late_keeps_its_start(tmp_path: Path) -> None:
    before, after = [*sent(0, 0.0)][:3], [*sent(0, 0.0, seed=2)][:3]
    shift_ns = 500 * S
    moved = [
        [HEAD] + [
            (at + shift_ns, host, content[:8] + struct.pack(">I", NOW_S + 560 + n) + content[12:])
            for at, host, content in file[1:]
        ]
        for n, file in enumerate(after)
    ]  # fmt: skip
    late = before[2][-1]
    mixed = [*before, moved[0], [*moved[1], (late[0] + shift_ns, late[1], late[2])], moved[2]]
    found = ends(mixed, tmp_path, restart_at=-1)
    again = ends([*before, moved[0], moved[1], [HEAD, late], moved[2]], tmp_path, restart_at=-1)
    assert sorted(found) == pytest.approx(sorted(again), abs=MS)
    assert min(abs(one - late[0]) for one in found) < 2 * MS
