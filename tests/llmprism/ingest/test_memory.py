"""Memory does not grow with the file: ten times the telemetry, about the same peak."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

MEASURED = """
import pathlib, sys
from llmprism.ingest.commands import ingest_app
ingest_app([sys.argv[1], "--out", sys.argv[2], "--quiet"], standalone_mode=False)
status = pathlib.Path("/proc/self/status").read_text()  # ru_maxrss begins with the parent's
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""
MOST_GROWTH = 1.25
_PACKET = np.dtype(
    [
        ("seconds", "<u4"), ("micros", "<u4"), ("captured", "<u4"), ("length", "<u4"),
        ("ethernet", "V12"), ("kind", ">u2"), ("version", "u1"), ("tos", "u1"), ("total", ">u2"),
        ("id", ">u4"), ("ttl", "u1"), ("protocol", "u1"), ("sum", ">u2"), ("src", ">u4"),
        ("dst", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2"), ("tcp", "V8"), ("offset", "u1"),
        ("rest", "V7"),
    ]
)  # fmt: skip
_AT_ONCE = 100_000
_BURST = 2  # packets of a flow in a row; then other flows send
_FLOWS = 4_096

NFDUMP_HEAD = (
    "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das,smk,dmk,dtos,dir,"
    "nh,nhb,svln,dvln,ismc,odmc,idmc,osmc,mpls1,mpls2,mpls3,mpls4,mpls5,mpls6,mpls7,mpls8,mpls9,"
    "mpls10,cl,sl,al,ra,eng,exid,tr\n"
)
_NFDUMP_REST = (
    ",TCP,......,0,0,8,12000,0,0,1,2,0,0,24,24,0,0,10.0.0.254,0.0.0.0,0,0,00:00:00:00:00:00,"
    "00:00:00:00:00:00,00:00:00:00:00:00,00:00:00:00:00:00,0-0-0,0-0-0,0-0-0,0-0-0,0-0-0,0-0-0,"
    "0-0-0,0-0-0,0-0-0,0-0-0,    0.000,    0.000,    0.000,192.0.2.1,0/0,1,{}\n"
)


def write_pcap(path: Path, packets: int) -> int:
    """Write a capture with a packet every 20 us; return the number of flow records in it."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
        for start in range(0, packets, _AT_ONCE):
            number = np.arange(start, min(start + _AT_ONCE, packets))
            rows = np.zeros(number.size, _PACKET)
            rows["seconds"], rows["micros"] = np.divmod(1_700_000_000_000_000 + number * 20, 10**6)
            rows["captured"], rows["length"] = _PACKET.itemsize - 16, 1_514
            rows["kind"], rows["version"], rows["total"] = 0x0800, 0x45, 1_500
            rows["protocol"], rows["offset"] = 6, 0x50
            flow = number // _BURST % _FLOWS
            rows["src"], rows["dst"] = 0x0A000000 + flow % 64, 0x0A000100 + flow // 64
            rows["src_port"], rows["dst_port"] = 20_000 + flow, 29_500
            out.write(rows.tobytes())
    return packets // _BURST


def write_nfdump_csv(path: Path, records: int) -> int:
    """Write output of ``nfdump -o csv``, four records per ms; return their number."""
    with path.open("w") as out:
        out.write(NFDUMP_HEAD)
        for i in range(records):
            seconds, millis = divmod(i // 4, 1_000)
            minutes = seconds // 60
            clock = f"{12 + minutes // 60:02d}:{minutes % 60:02d}:{seconds % 60:02d}"
            time = f"2026-03-01 {clock}.{millis:03d}"
            ends = f"10.0.{i % 8}.{i % 64},10.1.{i % 8}.{i % 61},{20_000 + i % 997},29500"
            out.write(f"{time},{time},0.004,{ends}" + _NFDUMP_REST.format(time))
        out.write("Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,2,3,4,5,6\n")
    return records


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
