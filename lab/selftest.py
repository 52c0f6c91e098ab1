"""One short case from end to end: capture, diagnose, score, and nothing left behind.

python -m lab.selftest
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from lab.records import GAPS_MS

CASE = "short"
PATIENCE_S, UNDER_WAY_S = 60.0, 6.0
EXPECTED = (
    "manifest.json",
    "topology.json",
    "flows_egress.parquet",
    "flows_netflow.parquet",
    "raw/pcap/leaf000.pcap",
    "raw/pcap/spine00.pcap",
    "raw/netflow9",
    "raw/ipfix",
)


def main() -> int:
    before = _traces()
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / CASE
        _command("lab", CASE, "--out", str(folder))
        problems = [f"{name} is missing" for name in EXPECTED if not (folder / name).exists()]
        problems += _wrong(folder)
        flows, topology = folder / "flows.parquet", folder / "topology.json"
        _command("prism_sim", "diagnose", str(flows), "--topology", str(topology),
                 "--out", str(folder / "diagnosis"))  # fmt: skip
        _command("prism_sim", "score", str(folder))
        problems += [] if (folder / "score.json").exists() else ["there is no score"]
        _interrupt(Path(room) / "interrupted")
        problems += [f"left in the folder: {name}" for name in set(_listed(room)) - {CASE}]
    problems += [f"left behind: {what}" for what in sorted(_traces() - before)]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print("the lab works" if not problems else "the lab does not work")
    return 1 if problems else 0


def _command(*words: str) -> None:
    print("$ python -m", *words, file=sys.stderr)
    subprocess.run([sys.executable, "-m", *words], check=True)


def _interrupt(folder: Path) -> None:
    """Start a run, and end it with Ctrl-C while everything is under way."""
    run = subprocess.Popen([sys.executable, "-m", "lab", CASE, "--out", str(folder)])
    until = time.monotonic() + PATIENCE_S
    while "tcpdump" not in " ".join(_traces()) and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(UNDER_WAY_S)
    run.send_signal(signal.SIGINT)
    run.wait()


def _wrong(folder: Path) -> list[str]:
    """Return what is wrong with the records and the truth."""
    truth = {p.stem: pd.read_parquet(p) for p in (folder / "truth").glob("*.parquet")}
    counts = [_records(folder, gap_ms) for gap_ms in GAPS_MS]
    checks = {
        "finer records are more numerous": counts == sorted(counts, reverse=True),
        "there are four ranks": len(truth["ranks"]) == 4,
        "every rank has twelve steps": truth["steps"].groupby("rank").size().eq(12).all(),
        "there is one fault": len(truth["faults"]) == 1,
        "there are pairs of both kinds": set(truth["pairs"]["kind"]) >= {"dp", "pp"},
    }
    return [f"not so: {what}" for what, holds in checks.items() if not holds]


def _records(folder: Path, gap_ms: int) -> int:
    name = "flows.parquet" if gap_ms == 5 else f"flows_gap{gap_ms}ms.parquet"
    return len(pd.read_parquet(folder / name, columns=["bytes"]))


def _traces() -> set[str]:
    """Return network namespaces, links and tools that a run could leave behind."""
    found = {f"namespace {name}" for name in _listed("/run/netns")}
    found |= {f"device {name}" for name in _listed("/sys/class/net")}
    for process in _listed("/proc"):
        if process.isdecimal():
            name = _name(process)
            if name in ("tcpdump", "softflowd", "nfcapd", "orted", "mpirun"):
                found.add(f"process {process} {name}")
    return found


def _listed(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _name(process: str) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
