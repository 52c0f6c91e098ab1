"""Starting the training jobs of a case, and waiting until they have ended."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from lab.case import LabCase
from lab.faults import FaultWindows, Report
from lab.plan import JobPlan
from lab.processes import Processes
from lab.trainers import MPI

AGENT = Path(__file__).resolve().parent / "trainers" / "agent.sh"
ALL_REDUCES = {"recursive_doubling": 3, "ring": 4, "rabenseifner": 6}
"""Numbers of OpenMPI's all-reduce algorithms (``coll_tuned_allreduce_algorithm``)."""


class JobFailedError(RuntimeError):
    """A trainer ended with an error, or the time was up."""


def start(case: LabCase, plan: JobPlan, processes: Processes) -> subprocess.Popen[bytes]:
    """Start all ranks of a job."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TMPDIR": plan.room}
    path = str(plan.write())
    if plan.trainer not in MPI:
        command = [sys.executable, "-m", "lab.trainers.launch", path]
        return processes.start(command, f"job-{plan.job}", env=env)
    command = _mpirun(case, plan, path)
    return processes.start(command, f"job-{plan.job}", plan.servers[0], env=env)


def _mpirun(case: LabCase, plan: JobPlan, path: str) -> list[str]:
    parameters = {
        "plm_rsh_agent": str(AGENT), "plm_rsh_no_tree_spawn": 1, "btl": "tcp,self", "pml": "ob1",
        "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": 1,
        "coll_tuned_use_dynamic_rules": 1,
        "coll_tuned_allreduce_algorithm": ALL_REDUCES[case.lab.mpi_all_reduce],
        "coll": "^han,adapt", "orte_tmpdir_base": plan.room, "rmaps_base_oversubscribe": 1,
    }  # fmt: skip
    words = [word for name, value in parameters.items() for word in ("--mca", name, str(value))]
    named = ["unshare", "--uts", "--", "sh", "-c",
             'echo "$0" > /proc/sys/kernel/hostname; exec "$@"', plan.servers[0]]  # fmt: skip
    return [*named, "mpirun", "--allow-run-as-root", "--host", ",".join(plan.servers),
            "-np", str(plan.ranks), "--bind-to", "none", *words,
            "-x", "PYTHONPATH", sys.executable, "-m", MPI[plan.trainer], path]  # fmt: skip


def wait(
    started: list[subprocess.Popen[bytes]],
    reports: socket.socket,
    windows: FaultWindows,
    limit_s: float,
) -> None:
    """Hand on the ranks' reports until all jobs have ended."""
    until = time.monotonic() + limit_s
    while any(job.poll() is None for job in started):
        if time.monotonic() > until:
            raise JobFailedError(f"the jobs did not end within {limit_s:.0f} s")
        if any(job.poll() for job in started):
            break
        if select.select([reports], [], [], 0.2)[0]:
            windows.take(Report(**json.loads(reports.recv(4096))))
    if any(job.wait() for job in started):
        raise JobFailedError("a trainer ended with an error")
