"""Make a small fixture of a run: its tables, its export, and a short piece of one capture.

python -m lab.fixture RUN TARGET
"""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pandas as pd

from lab.capture import FOLDERS
from lab.records import GAPS_MS, flows_name

PACKETS = 800
FIRST_STEP = 2
CAPTURE = "leaf000.pcap"
SEEN_AT_DESTINATIONS = {"slow_switch"}
_HEAD, _RECORD = 24, struct.Struct("<IIII")


def make(run: Path, target: Path) -> None:
    """Copy the parts of a run that tests need."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "raw").mkdir(parents=True)
    names = [*(flows_name(gap_ms) for gap_ms in GAPS_MS), "flows_netflow.parquet",
             "topology.json"]  # fmt: skip
    faults = pd.read_parquet(run / "truth" / "faults.parquet")
    if set(faults["kind"]) & SEEN_AT_DESTINATIONS:
        names.append("flows_egress.parquet")
    for name in names:
        shutil.copy(run / name, target / name)
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (target / "manifest.json").write_text(json.dumps(manifest) + "\n", encoding="utf-8")
    for folder in FOLDERS.values():
        for export in sorted((run / "raw" / folder).glob("nfcapd.*")):
            packed = target / "raw" / f"{folder}.nfcapd"
            subprocess.run(["nfdump", "-r", str(export), "-j", "-w", str(packed)], check=True)
    (target / "truth").mkdir()
    for path in sorted((run / "truth").glob("*.parquet")):
        shutil.copy(path, target / "truth" / path.name)
    steps = pd.read_parquet(run / "truth" / "steps.parquet")
    since_ns = int(steps.loc[steps["step"] == FIRST_STEP, "start_ns"].min())
    piece = cut((run / "raw" / "pcap" / CAPTURE).read_bytes(), since_ns, PACKETS)
    (target / "raw" / f"{CAPTURE}.gz").write_bytes(gzip.compress(piece, 9, mtime=0))


def cut(capture: bytes, since_ns: int, packets: int) -> bytes:
    """Return the packets of a capture with nanoseconds from a time on, at most so many."""
    kept, place = [capture[:_HEAD]], _HEAD
    while place + _RECORD.size <= len(capture) and len(kept) <= packets:
        seconds, fraction, size, _ = _RECORD.unpack_from(capture, place)
        end = place + _RECORD.size + size
        if seconds * 1_000_000_000 + fraction >= since_ns:
            kept.append(capture[place:end])
        place = end
    return b"".join(kept)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
