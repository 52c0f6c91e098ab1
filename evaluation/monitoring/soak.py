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
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.judging import Incident, Truth, incidents_of, is_stop, true_jobs
from evaluation.monitoring.process import Watching, stored, used_s, watching
from llmprism.batches.chains import members_of
from llmprism.pipeline import diagnose
from llmprism.watch.matching import alert_name
from llmprism.watch.network import Network
from prism_sim.exporters.netflow import ipfix_messages
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run

HOUR_S = 3_600
_RANKS = 4
_MODEL = {"layers": 4, "hidden": 8192, "heads": 64, "vocab": 32_000, "sequence_length": 4_096}
_EVERY_S, _WINDOW_S, _QUIET_S = 60, 2_400, 300
_SETTLED_S = 60  # without any change of the state
_PIECE_S = 20  # of the records' time, sent together


@dataclass(frozen=True)
class Look:
    """A monitor at one moment.

    Attributes
    ----------
    sent_s : time of the records that were sent [s].
    lag_s : how far behind the monitor was, in time of the records [s].
    memory_bytes : its own resident memory, without pages of files.
    file_bytes : resident pages of files, as of libraries: the kernel takes those back that are not
        used, and reads them again.
    load : processes of this machine that run or wait for a core, over the last minute.
    """

    sent_s: float
    lag_s: float
    memory_bytes: int
    file_bytes: int
    load: float


@dataclass
class Soak:
    """What came of it.

    Attributes
    ----------
    sent, kept, dropped : records that were sent and stored, and datagrams that the kernel dropped.
    faults, missed, false : faults, those without an alert, and alerts without a fault.
    hidden : those without an alert that one diagnosis of all records does not find either.
    renamed : those whose alerts have another cause than that diagnosis has.
    looks : the monitor at moments of equal distances.
    """

    sent: int = 0
    kept: int = 0
    dropped: int = 0
    faults: int = 0
    missed: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
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
    options = ["--window", f"{_WINDOW_S}s", "--every", f"{_EVERY_S}s"]
    options += ["--quiet-period", f"{_QUIET_S}s"]
    with watching(f"udp://127.0.0.1:{port}", run.topology, folder, *options) as monitor:
        while not (monitor.state / "spool").exists() and monitor.process.poll() is None:
            time.sleep(0.1)
        time.sleep(2.0)  # the port is open soon after
        _send(run, port, speed, monitor, found)
        _wait_until_taken(monitor, found)
        found.dropped, before_s = _dropped(port), used_s()
        monitor.process.send_signal(signal.SIGINT)
        found.exit_code = monitor.process.wait(120)
        found.cpu_s = used_s() - before_s
    _judge(run, folder / "state", found)
    return found


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _send(run: Run, port: int, speed: float, monitor: Watching, found: Soak) -> None:
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
        for leaf, records in own.groupby(own["src"].astype(str).map(leaf_of)):
            if number % restarts == 0:
                exporters[leaf].restart()
            exporters[leaf].send(records)
            found.sent += len(records)
        if number % max(last // 60, 1) == 0:
            found.looks += _look(monitor, int(own["end_ns"].max()), since_ns)
        wait_s = began_s + (number + 1) * _PIECE_S / speed - time.monotonic()
        time.sleep(max(wait_s, 0.0))
    for exporter in exporters.values():
        exporter.close()


def _look(monitor: Watching, sent_ns: int, since_ns: int) -> list[Look]:
    """How far behind the monitor is, and its memory; nothing before it has stored records."""
    watermark_ns = monitor.stored().get("watermark_ns")
    if not watermark_ns:
        return []
    lag_s = (sent_ns - watermark_ns) / 1e9
    own, files = (monitor.memory_bytes(name) for name in ("RssAnon", "RssFile"))
    return [Look((sent_ns - since_ns) / 1e9, lag_s, own, files, os.getloadavg()[0])]


def _wait_until_taken(monitor: Watching, found: Soak) -> None:
    """Wait until nothing waits for the monitor, and it stores no more."""
    before, same = -1, 0
    while same < _SETTLED_S and (found.kept < found.sent or _waits(monitor.state)):
        content = monitor.stored()
        found.kept = sum(content.get("fates", {}).values())
        commit = int(content.get("commit", 0))
        same = same + 1 if commit == before and not _waits(monitor.state) else 0
        before = commit
        time.sleep(1.0)


def _waits(state: Path) -> bool:
    """Whether datagrams wait in files."""
    return any((state / "spool").glob("*.pcap"))


def _dropped(port: int) -> int:
    """Datagrams to a port that the kernel dropped, as it counts them itself."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if int(row[1].split(":")[1], 16) == port)


def _judge(run: Run, state: Path, found: Soak) -> None:
    """Compare the alerts with the faults, and those with one diagnosis of all records."""
    truth = Truth(run, stored(state)["cursor_ns"])
    alerts, false = truth.reports(incidents_of(run, state)[0])
    shown, _ = truth.reports(_of_one_diagnosis(run))
    found.false = [f"{one.cause} {one.place}" for one in false]
    for fault in truth.faults:
        name = f"{fault.name} {fault.job}"
        causes, those = ({one.cause for one in of[fault]} for of in (alerts, shown))
        found.faults += 1
        found.missed += [name] if not causes else []
        found.hidden += [name] if not causes | those else []
        found.renamed += [name] if causes and those and not causes & those else []


def _of_one_diagnosis(run: Run) -> Iterator[Incident]:
    """What one diagnosis of all records finds."""
    whole, servers = diagnose(run.flows, run.topology), Network(run.topology).servers
    members = members_of(whole).items()
    jobs = true_jobs(run, {job: [servers[one] for one in own] for job, own in members})
    for one in whole.findings.to_dict("records"):
        row = {str(name): value for name, value in one.items()}
        cause, begin_ns = alert_name(row), int(row["start_ns"])
        yield Incident(
            cause, "", jobs[str(row["job"])], "", begin_ns, int(row["end_ns"]), begin_ns,
            is_stop(cause),
        )  # fmt: skip


# Exporters that send the records of a simulation as IPFIX datagrams over UDP.
#
# Each leaf is an exporter with an address of its own on the loopback. It sends a record when its
# flow has ended. A restart forgets the sequence number, as a switch that boots does, and sends
# the template again.


@dataclass
class Exporter:
    """One switch; ``host`` is its address on the loopback."""

    host: str
    port: int
    _sequence: int = 0
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.host, 0))

    def restart(self) -> None:
        """Begin again, as after a boot."""
        self._sequence = 0

    def send(self, records: pd.DataFrame) -> None:
        """Send flow records."""
        for message in ipfix_messages(records, self._sequence):
            self._socket.sendto(message, ("127.0.0.1", self.port))
        self._sequence = (self._sequence + len(records)) % 2**32

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
