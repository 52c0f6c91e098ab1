"""One run of a case, inside the namespaces that :mod:`lab.isolation` made for it; and its truth."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lab import capture, jobs
from lab.case import LabCase
from lab.faults import FaultWindows, row
from lab.network import RESOLVER, RESOLVER_ADDRESS, Network, run
from lab.plan import JobPlan, addresses, plans
from lab.processes import Processes
from lab.records import EXPORTED, write_exports, write_flows, write_packed
from lab.trainers.recording import STEP
from llmprism.io.writing import write_table
from prism_sim.cluster.topology import topology_of
from prism_sim.run_folder import TRUTH

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
    (folder / "topology.json").write_text(json.dumps(network.topology, indent=1) + "\n")
    manifest = _manifest(case, duration_s, counts, folder)
    manifest |= {"steps_differ_from_profile_ms": apart_ms} if apart_ms else {}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
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


# Traces of ``torch.profiler``: kept with the run, and compared with what the trainers recorded.
#
# Both clocks are those of the machine, so a step must begin and end at the same time in both. The
# profiler learns of a step from a mark that the trainer sets just after it has read the clock.

FOLDER = "profiles"


def keep(room: Path, folder: Path) -> dict[str, float]:
    """Move the traces in ``room`` to ``folder``; return how far steps differ, by rank [ms].

    The largest difference of a start or an end between the trace and the trainer's record.
    """
    apart: dict[str, float] = {}
    for path in sorted(room.glob("profile-*.json.gz")):
        rank = path.name.removeprefix("profile-").removesuffix(".json.gz")
        recorded = json.loads((room / f"truth-{rank}.json").read_text(encoding="utf-8"))
        apart[rank] = difference_ms(steps_of(path), pd.DataFrame(recorded["steps"]))
        (folder / FOLDER).mkdir(exist_ok=True)
        shutil.move(path, folder / FOLDER / f"{rank}.json.gz")
    return apart


def steps_of(path: Path) -> pd.DataFrame:
    """Columns ``step``, ``start_ns``, ``end_ns`` of the marked steps of a trace."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace: dict[str, Any] = json.load(file)
    origin_ns = int(trace.get("baseTimeNanoseconds", 0))
    rows = [
        {
            "step": int(event["name"].removeprefix(STEP)),
            "start_ns": origin_ns + round(event["ts"] * 1000),
            "end_ns": origin_ns + round((event["ts"] + event["dur"]) * 1000),
        }
        for event in trace["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith(STEP)
    ]
    return pd.DataFrame(rows, columns=["step", "start_ns", "end_ns"])


def difference_ms(traced: pd.DataFrame, recorded: pd.DataFrame) -> float:
    """Largest difference of a start or an end of a step [ms]; infinite if steps are missing."""
    both = recorded.merge(traced, on="step", how="outer", suffixes=("", "_traced"))
    if both.isna().to_numpy().any():
        return float("inf")
    apart = [(both[name] - both[f"{name}_traced"]).abs().max() for name in ("start_ns", "end_ns")]
    return float(max(apart)) / 1e6


# The truth tables of a run: from what its ranks recorded, and from the layout of its jobs.

SPANS = pa.schema([
    ("rank", pa.int64()), ("step", pa.int64()), ("kind", pa.string()), ("start_ns", pa.int64()),
    ("end_ns", pa.int64()), ("micro_batch", pa.int64()), ("bucket", pa.int64()),
    ("bytes", pa.int64()), ("job", pa.string()),
])  # fmt: skip
LEAST_PAYLOAD_BYTES = 64 * 1024
"""A pair that carried less in the whole run was only set up: it is in no row of ``pairs``."""


def write_truth(plans: list[JobPlan], windows: FaultWindows, room: Path, folder: Path) -> None:
    """Write ranks, steps, spans, pairs and faults below ``folder``."""
    truth = folder / "truth"
    truth.mkdir(parents=True, exist_ok=True)
    _write(truth, "ranks", [one for plan in plans for one in _ranks(plan)])
    recorded = {plan.job: _recorded(plan, room) for plan in plans}
    for name, schema in (("steps", TRUTH["steps"]), ("spans", SPANS)):
        rows = [own for job in recorded.values() for own in job[name]]
        write_packed(_frame(rows, schema), truth / f"{name}.parquet")
    flows = pq.read_table(folder / "flows.parquet", columns=["src", "dst", "payload"]).to_pandas()
    sent = flows.astype({"src": str, "dst": str}).groupby(["src", "dst"])["payload"].sum()
    _write(truth, "pairs", [one for plan in plans for one in _pairs(plan, sent)])
    begun = [number for number in range(len(windows.all)) if number in windows.begun]
    _write(truth, "faults", [row(windows, number, windows.all[number]) for number in begun])


def _write(truth: Path, name: str, rows: list[dict[str, Any]]) -> None:
    write_table(_frame(rows, TRUTH[name]), truth / f"{name}.parquet", TRUTH[name])


def _frame(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.table({one.name: pa.array([r.get(one.name) for r in rows], one.type)
                     for one in schema})  # fmt: skip


def _ranks(plan: JobPlan) -> list[dict[str, Any]]:
    rows = []
    for rank in range(plan.ranks):
        stage, member, tensor = plan.place(rank)
        rows.append({
            "job": plan.job, "rank": rank, "address": plan.addresses[rank],
            "server": plan.servers[rank], "gpu": 0, "dp": member, "pp": stage, "tp": tensor,
            "ep": 0, "cp": 0,
        })  # fmt: skip
    return rows


def _recorded(plan: JobPlan, room: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"steps": [], "spans": []}
    for rank in range(plan.ranks):
        own = json.loads((room / f"truth-{plan.job}-{rank}.json").read_text(encoding="utf-8"))
        for name, rows in found.items():
            rows += [{"job": plan.job, "rank": rank, **one} for one in own[name]]
    return found


def _pairs(plan: JobPlan, sent: pd.Series) -> list[dict[str, Any]]:
    rows = []
    for a in range(plan.ranks):
        for b in range(plan.ranks):
            src, dst = plan.addresses[a], plan.addresses[b]
            size = int(sent.get((src, dst), 0))
            if size >= LEAST_PAYLOAD_BYTES:
                kind = kind_of(plan, a, b)
                rows.append({"job": plan.job, "src": src, "dst": dst, "kind": kind, "bytes": size})
    return rows


def kind_of(plan: JobPlan, a: int, b: int) -> str:
    """Return what two ranks are to each other: they differ in one place, or in several."""
    places = zip(("pp", "dp", "tp"), plan.place(a), plan.place(b), strict=True)
    differing = [kind for kind, one, other in places if one != other]
    return differing[0] if len(differing) == 1 else "other"
