"""One run of a case, inside the namespaces that :mod:`lab.isolation` made for it; and its truth."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab import capture, jobs
from lab.case import LabCase
from lab.faults import FaultWindows
from lab.network import RESOLVER, RESOLVER_ADDRESS, Network, run
from lab.plan import addresses, plans
from lab.processes import Processes
from lab.profiles import keep
from lab.records import EXPORTED, write_exports, write_flows
from lab.truth import write_truth
from prism_common.files import write_json
from prism_sim.cluster.topology import topology_of

SETTLE_S = 1.0
DRAIN_S = 2.5
"""Exporters send what is left of a connection after a second of silence."""


def run_case(case: LabCase, folder: Path, room: Path) -> dict[str, Any]:
    """Build, train, capture, and write the run folder; return the manifest."""
    network = Network(topology_of(case.scenario.cluster).to_json(), case.lab.burst_bytes)
    network.build()
    _name_service(room)
    job_plans = plans(case, room, room / "reports")
    windows = FaultWindows(case, network, job_plans)
    raw = folder / "raw"
    raw.mkdir(parents=True)
    start = time.monotonic()
    with _reports(room / "reports") as reports, Processes(folder / "logs") as processes:
        _serve_names(case, room, processes)
        capture.start(network, raw, room, processes)
        time.sleep(SETTLE_S)
        _noise(case, room, processes)
        started = [jobs.start(case, plan, processes) for plan in job_plans]
        jobs.wait(started, reports, windows, case.lab.limit_s)
        time.sleep(DRAIN_S)
    duration_s = time.monotonic() - start
    counts = write_flows(raw / "pcap", folder, network)
    collected = sorted((raw / capture.FOLDERS[9]).glob("nfcapd.*"))
    counts[EXPORTED] = write_exports(collected, folder)
    write_truth(job_plans, windows, room, folder)
    apart_ms = keep(room, folder)
    write_json(folder / "topology.json", network.topology)
    manifest = _manifest(case, duration_s, counts, folder)
    manifest |= {"steps_differ_from_profile_ms": apart_ms} if apart_ms else {}
    write_json(folder / "manifest.json", manifest)
    return manifest


def _reports(path: Path) -> socket.socket:
    """Return the socket that ranks report the start of their steps to."""
    reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reports.bind(str(path))
    return reports


def _name_service(room: Path) -> None:
    """Make all processes of this run ask the lab's own name server."""
    for name, text in (("resolv.conf", f"nameserver {RESOLVER_ADDRESS}\n"),
                       ("hosts", "127.0.0.1 localhost\n")):  # fmt: skip
        (room / name).write_text(text)
        run(["mount", "--bind", str(room / name), f"/etc/{name}"])


def _serve_names(case: LabCase, room: Path, processes: Processes) -> None:
    path = room / "names.json"
    path.write_text(json.dumps(addresses(case.scenario.cluster)))
    processes.start([sys.executable, "-m", "lab.resolver", str(path)], RESOLVER, RESOLVER)


def _noise(case: LabCase, room: Path, processes: Processes) -> None:
    servers = addresses(case.scenario.cluster)
    if case.scenario.background:
        path = room / "noise.json"
        items = [item.model_dump() for item in case.scenario.background]
        settings = {"background": items, "addresses": servers, "seed": case.scenario.seed}
        path.write_text(json.dumps(settings))
        processes.start([sys.executable, "-m", "lab.noise", str(path)], "noise")
    if case.lab.pings is not None:
        names = list(servers)
        shift = case.scenario.cluster.servers_per_leaf
        for number, name in enumerate(names):
            target = servers[names[(number + shift) % len(names)]]
            command = ["ping", "-q", "-n", "-i", str(case.lab.pings.every_s), target]
            processes.start(command, f"ping-{name}", name)


def _manifest(
    case: LabCase, duration_s: float, counts: dict[str, int], folder: Path
) -> dict[str, Any]:
    return {
        "case": case.name,
        "text": " ".join(case.scenario.description.split()),
        "scenario": case.scenario.model_dump(mode="json"),
        "lab": case.lab.model_dump(mode="json"),
        "duration_s": round(duration_s, 1),
        "records": counts,
        "packets_lost": capture.lost_packets(folder / "logs"),
        "versions": _versions(case),
    }


def _versions(case: LabCase) -> dict[str, str]:
    from importlib.metadata import version

    found = {"torch": version("torch"), "tcpdump": _first_line("tcpdump", "--version"),
             "softflowd": _first_line("softflowd", "-h", line=1)}  # fmt: skip
    if "mpi" in case.lab.trainers.values():
        found |= {"mpi4py": version("mpi4py"), "mpirun": _first_line("mpirun", "--version")}
    return found


def _first_line(*command: str, line: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).splitlines()
    return lines[line] if len(lines) > line else "?"
