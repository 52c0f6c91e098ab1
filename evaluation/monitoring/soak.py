"""Hours of many jobs in compressed time: do alerts, records and memory stay as they should?

Jobs take steps of a minute or more. Some of them restart, some have a slow GPU or a slow
server for a while. Telemetry loses records, and exporters restart. A monitor gets all records over
UDP, faster than they were made.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.exporters import Exporter, by_exporter, encoded
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run

Process = subprocess.Popen[bytes]
HOUR_S = 3_600
_RANKS = 4
_MODEL = {"layers": 4, "hidden": 8192, "heads": 64, "vocab": 32_000, "sequence_length": 4_096}
_EVERY_S, _WINDOW_S, _QUIET_S = 60, 2_400, 300
_LATE_S = 2 * _WINDOW_S  # an alert comes while its fault lasts, or so much later
_SETTLED_S = 60  # without any change of the state
_PIECE_S = 20  # of the records' time, sent together


@dataclass(frozen=True)
class Look:
    """A monitor at one moment.

    Attributes
    ----------
    lag_s : how far behind the monitor was, in time of the records [s].
    memory_bytes : its own resident memory, without pages of files.
    load : processes of this machine that run or wait for a core, over the last minute.
    """

    lag_s: float
    memory_bytes: int
    load: float


@dataclass
class Soak:
    """What came of it.

    Attributes
    ----------
    sent, kept, dropped : records that were sent and stored, and datagrams that the kernel dropped.
    faults, missed, false : faults, those without an alert, and alerts without a fault.
    looks : the monitor at moments of equal distances.
    """

    sent: int = 0
    kept: int = 0
    dropped: int = 0
    faults: int = 0
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    cpu_s: float = 0.0
    exit_code: int = 0


def scenario(count: int, hours: float, seed: int) -> Scenario:
    """So many jobs, faults and telemetry for so many hours."""
    draw, lasts_s = np.random.default_rng(seed), hours * HOUR_S
    jobs, faults = [], []
    for number in range(count):
        name = f"job{number:02}"
        jobs.append(_job(name, int(draw.integers(8, 16)), float(draw.uniform(0, 0.1)) * lasts_s))
        first_s = float(draw.uniform(0.25, 0.7)) * lasts_s
        window = {"job": name, "from_s": first_s, "to_s": first_s + float(draw.uniform(600, 1_500))}
        if number % 4 == 0:
            rank, factor = int(draw.integers(_RANKS)), float(draw.uniform(0.5, 0.8))
            faults.append({"kind": "slow_gpu", "rank": rank, "factor": factor, **window})
        elif number % 4 == 1:
            crash = {"noticed_after_s": 60, "down_s": 120, "from_s": first_s, "job": name}
            faults.append({"kind": "crash", "rank": int(draw.integers(_RANKS)), **crash})
    servers = count * _RANKS
    fabric = {"kind": "tor", "leaf_ports": 8, "spines": 4}
    cluster = {"servers": servers, "gpus_per_server": 1, "nics_per_server": 1, "fabric": fabric}
    collector = {"effects": [{"kind": "loss", "probability": 0.0005}]}
    return Scenario.model_validate(
        {"cluster": cluster, "jobs": jobs, "faults": faults, "collector": collector,
         "duration_s": lasts_s, "seed": seed}
    )  # fmt: skip


def _job(name: str, micro_batches: int, start_s: float) -> dict[str, Any]:
    return {
        "name": name, "model": _MODEL, "dp": _RANKS, "pp": 1, "micro_batches": micro_batches,
        "steps": 1_000_000, "mfu": 0.01, "compute_jitter": 0.01, "start_s": start_s,
    }  # fmt: skip


def soak(jobs: int, hours: float, speed: float, folder: Path, seed: int = 0) -> Soak:
    """Simulate, send at ``speed`` times the pace of the records, and compare with the truth."""
    run = simulated(scenario(jobs, hours, seed), RESULTS / "worlds")
    found, port = Soak(), _free_port()
    folder.mkdir(parents=True)
    times = (
        "--window",
        f"{_WINDOW_S}s",
        "--every",
        f"{_EVERY_S}s",
        "--quiet-period",
        f"{_QUIET_S}s",
    )
    with watching(folder, f"udp://127.0.0.1:{port}", run.topology, *times) as process:
        while not (folder / "state" / "spool").exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(2.0)  # the port is open soon after
        _send(run, port, speed, folder / "state", process, found)
        _wait_until_taken(folder / "state", found)
        found.dropped = _dropped(port)
        before = os.times()
        process.send_signal(signal.SIGINT)
        found.exit_code = process.wait(120)
        after = os.times()
        found.cpu_s = after.children_user + after.children_system
        found.cpu_s -= before.children_user + before.children_system
    _judge(run, folder / "state", found)
    return found


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def watching(folder: Path, source: str, topology: Path, *more: str) -> Iterator[Process]:
    """``llmprism watch`` as a process of its own, which is killed in the end."""
    command = [sys.executable, "-m", "llmprism", "watch", source, "--topology", str(topology)]
    command += ["--state", str(folder / "state"), "--quiet", "--lag-bound", "2000000000s", *more]
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _send(
    run: Run,
    port: int,
    speed: float,
    state: Path,
    process: Process,
    found: Soak,
) -> None:
    """Send all records in order of their ends; exporters restart every sixth of the time."""
    flows = pd.read_parquet(run.flows).sort_values("end_ns", kind="stable")
    ends = json.loads(run.topology.read_text())["endpoints"]
    leaf_of = {end["address"]: end["switch"] for end in ends}
    leaves = sorted(set(leaf_of.values()))
    exporters = {leaf: Exporter(f"127.0.1.{n + 1}", port) for n, leaf in enumerate(leaves)}
    since_ns = int(flows["end_ns"].min())
    piece = ((flows["end_ns"] - since_ns) // (_PIECE_S * 10**9)).to_numpy(np.int64)
    began_s, last, restarts = time.monotonic(), int(piece.max()), max(int(piece.max()) // 6, 1)
    for number, (_, own) in enumerate(flows.groupby(piece)):
        for leaf, records in by_exporter(own, leaf_of):
            if number % restarts == 0:
                exporters[leaf].restart()
            exporters[leaf].send(encoded(records))
            found.sent += len(records)
        if number % max(last // 60, 1) == 0:
            found.looks += _look(state, process, int(own["end_ns"].max()))
        wait_s = began_s + (number + 1) * _PIECE_S / speed - time.monotonic()
        time.sleep(max(wait_s, 0.0))
    for exporter in exporters.values():
        exporter.close()


def _look(state: Path, process: Process, sent_ns: int) -> list[Look]:
    """How far behind the monitor is, and its memory; nothing before it has stored records."""
    watermark_ns = _stored(state).get("watermark_ns")
    if not watermark_ns:
        return []
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    sizes = dict(line.split(":", 1) for line in lines)
    own_bytes = int(sizes["RssAnon"].split()[0]) * 1024
    return [Look((sent_ns - watermark_ns) / 1e9, own_bytes, os.getloadavg()[0])]


def _wait_until_taken(state: Path, found: Soak) -> None:
    """Wait until nothing waits for the monitor, and it stores no more."""
    before, same = -1, 0
    while same < _SETTLED_S and (found.kept < found.sent or _waits(state)):
        stored = _stored(state)
        found.kept = sum(stored.get("fates", {}).values())
        commit = int(stored.get("commit", 0))
        same = same + 1 if commit == before and not _waits(state) else 0
        before = commit
        time.sleep(1.0)


def _waits(state: Path) -> bool:
    """Whether datagrams wait in files."""
    return any((state / "spool").glob("*.pcap"))


def _dropped(port: int) -> int:
    """Datagrams to a port that the kernel dropped, as it counts them itself."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if int(row[1].split(":")[1], 16) == port)


def _stored(state: Path) -> dict[str, Any]:
    path = state / "state.json"
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return stored


def _judge(run: Run, state: Path, found: Soak) -> None:
    """Compare the alerts with the faults."""
    faults = pd.read_parquet(run.folder / "truth" / "faults.parquet").to_dict("records")
    ranks = pd.read_parquet(run.folder / "truth" / "ranks.parquet")
    job_of = dict(zip(ranks["server"].astype(str), ranks["job"].astype(str), strict=True))
    jobs = {
        one["name"]: {job_of.get(server) for server in one["servers"]}
        for one in _stored(state).get("jobs", [])
    }
    met: set[int] = set()
    for alert in _alerts(state):
        time_ns, labels = pd.Timestamp(alert["startsAt"]).value, alert["labels"]
        hits = _hits(faults, jobs.get(labels["job"], set()), time_ns)
        met |= hits
        found.false += [] if hits else [f"{labels['alertname']} {labels['place']}"]
    found.faults = len(faults)
    found.missed = [f"{f['kind']} {f['job']}" for at, f in enumerate(faults) if at not in met]


def _hits(
    faults: Sequence[dict[Hashable, Any]], jobs: Collection[str | None], time_ns: int
) -> set[int]:
    """The faults that an alert about ``jobs`` from a time on may be about [ns]."""
    return {at for at, one in enumerate(faults) if one["job"] in jobs and _fits(one, time_ns)}


def _alerts(state: Path) -> list[dict[str, Any]]:
    """The events that opened an alert about a job."""
    path = state / "alerts.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one for one in events if one["event"] == "opened" and one["labels"].get("job")]


def _fits(fault: dict[Hashable, Any], time_ns: int) -> bool:
    """Whether an alert from this time on may be about a fault [ns]."""
    early_ns, late_ns = _QUIET_S * 10**9, _LATE_S * 10**9
    begins: bool = fault["start_ns"] - early_ns <= time_ns <= fault["end_ns"] + late_ns
    return begins
