"""Memory does not grow with the file: ten times the telemetry, about the same peak."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from big_telemetry import write_nfdump_csv, write_pcap

MEASURED = """
import pathlib, sys
from llmprism.ingest.commands import ingest_app
ingest_app([sys.argv[1], "--out", sys.argv[2], "--quiet"], standalone_mode=False)
status = pathlib.Path("/proc/self/status").read_text()  # ru_maxrss begins with the parent's
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""
MOST_GROWTH = 1.25


def peak_mib(path: Path, out: Path) -> tuple[int, str]:
    """Ingest a file in a process of its own; return its peak memory and its output."""
    command = [sys.executable, "-c", MEASURED, str(path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *printed, peak = done.stdout.splitlines()
    return int(peak), "\n".join(printed)


@pytest.mark.full
@pytest.mark.parametrize(
    ("write", "rows"), [(write_pcap, 300_000), (write_nfdump_csv, 300_000)], ids=["pcap", "nfdump"]
)
def test_ten_times_the_telemetry_needs_no_more_memory(
    write: Callable[[Path, int], int], rows: int, tmp_path: Path
) -> None:
    """Measured: pcap 299 and 286 MiB, nfdump CSV 362 and 427 MiB."""
    peaks = []
    for factor in (1, 10):
        path = tmp_path / f"{factor}x"
        records = write(path, factor * rows)
        peak, printed = peak_mib(path, tmp_path / "out")
        assert f"{records:,} flow records" in printed
        peaks.append(peak)
    print(f"peak {peaks[0]} MiB for {rows:,} rows, {peaks[1]} MiB for {10 * rows:,}")
    assert peaks[1] <= MOST_GROWTH * peaks[0]
