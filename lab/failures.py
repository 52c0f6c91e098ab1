"""Real failures of a small PyTorch job, as logs: ``python -m lab.failures [CASE...] --out FOLDER``.

Each case runs two torchrun agents with two ranks each on this machine (gloo over loopback), as if
they were two nodes. A rank fails in one way at one iteration. The logs of a case are a folder as
``llmlog`` reads it, and ``truth.json`` has the answer. Needs PyTorch, a
Linux machine, and for the case ``out_of_memory`` a writable cgroup of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

TRAINER = Path(__file__).parent / "trainers" / "failing.py"
NODES = ("n0", "n1")
LIMIT_S = 60
_FRAMES = ("frame #", "#")
_KEPT_BYTES = 24_000
_LIMIT_BYTES = 900 << 20


class Case(NamedTuple):
    """What fails: the rank, the iteration, and what a diagnosis should say.

    ``cause`` is None if the logs cannot name it.
    """

    rank: int
    iteration: int
    stage: str
    cause: str | None


CASES = {
    "killed_rank": Case(2, 7, "crash", None),
    "exception": Case(1, 9, "crash", "key_error"),
    "hang": Case(3, 6, "hang", None),
    "full_disk": Case(0, 10, "crash", "disk_full"),
    "refused_connection": Case(2, 5, "crash", "connection_error"),
    "out_of_memory": Case(1, 8, "crash", "host_out_of_memory"),
    "slow_rank": Case(2, 15, "slow", None),
    "wrong_shape": Case(3, 4, "crash", "runtime_error"),
    "missing_file": Case(0, 6, "crash", "missing_file"),
    "nan": Case(2, 11, "crash", "nan_hardware"),
    "killed_agent": Case(3, 8, "crash", "agent_killed"),
    "stopped_process": Case(1, 7, "hang", "process_stopped"),
    "segmentation_fault": Case(0, 5, "crash", "segmentation_fault"),
    "permission": Case(1, 12, "crash", "permission_denied"),
}


def capture(name: str, folder: Path) -> None:
    """Run one case and write its logs and its truth into ``folder``."""
    case, job = CASES[name], folder / "job"
    job.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    begin_ns = time.time_ns()
    agents = [_agent(name, case, node, port, job) for node in range(len(NODES))]
    deadline = time.monotonic() + LIMIT_S
    while any(agent.poll() is None for agent in agents) and time.monotonic() < deadline:
        time.sleep(0.2)
    for agent in agents:
        _end(agent)
    row = {
        "job": "job", "job_id": 1, "name": name, "user": "lab", "nodes": NODES,
        "gpus_per_node": 2, "submit_ns": begin_ns, "begin_ns": begin_ns,
        "end_ns": time.time_ns(), "state": "CANCELLED" if name == "slow_rank" else "FAILED",
        "exit_code": "1:0",
    }  # fmt: skip
    _write(folder / "index.json", {"schema": 1, "jobs": [row]})
    truth = {"node": NODES[case.rank // 2], **case._asdict()}
    _write(folder / "truth.json", truth)


def _agent(name: str, case: Case, node: int, port: int, job: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(NODES)),
        "--node-rank", str(node), "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
        "--master-port", str(port), "--tee", "3", "--local-addr", "127.0.0.1",
        str(TRAINER), name, str(case.iteration), str(case.rank), "/data/run",
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    limited = name == "out_of_memory" and case.rank // 2 == node
    with (job / f"{NODES[node]}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=_limit if limited else None,
        )


def _limit() -> None:
    """Move this process into a cgroup that may use little memory, if there is one to make."""
    second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = Path("/sys/fs/cgroup" if second else "/sys/fs/cgroup/memory") / "prism-lab"
    group.mkdir(exist_ok=True)
    limits = {"memory.max": _LIMIT_BYTES, "memory.swap.max": 0}
    if not second:
        limits = {"memory.limit_in_bytes": _LIMIT_BYTES}
    for name, value in limits.items():
        (group / name).write_text(str(value))
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _end(agent: subprocess.Popen[bytes]) -> None:
    """End an agent and its ranks, which are in its session."""
    try:
        os.killpg(agent.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    agent.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def trim(path: Path) -> None:
    """Leave out frames of C++ stacks, paths of the machine, and lines beyond a size."""
    kept = [
        line
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n")
        if not line.split("]:", 1)[-1].lstrip().startswith(_FRAMES)
    ]
    text = "\n".join(kept).replace(str(TRAINER.parent), "/work").replace(sys.prefix, "/usr")
    path.write_text(text[:_KEPT_BYTES].replace(socket.gethostname(), "host"), encoding="utf-8")


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def main() -> None:
    """Capture cases, all by default."""
    parser = argparse.ArgumentParser(prog="python -m lab.failures")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for name in arguments.cases or CASES:
        capture(name, arguments.out / name)
        for log in (arguments.out / name).glob("job/*.log"):
            trim(log)


if __name__ == "__main__":
    main()
