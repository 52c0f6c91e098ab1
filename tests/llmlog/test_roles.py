"""Causal structure: who failed, apart from who reported it. Small worlds, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llmlog.cli import app

NODES = ("a", "b")


def diagnosed(
    folder: Path, logs: dict[str, str], batch: str = "", nodes: tuple[str, ...] = NODES
) -> dict[str, Any]:
    """The failure that the command finds in a job whose nodes have two ranks each."""
    job = folder / "job1"
    job.mkdir()
    for name, text in logs.items():
        (job / name).write_text(text, encoding="utf-8")
    (job / "slurm-1.out").write_text(batch, encoding="utf-8")
    row = {"job": "job1", "nodes": nodes, "gpus_per_node": 2, "state": "FAILED"}
    (folder / "index.json").write_text(json.dumps({"jobs": [row]}), encoding="utf-8")
    result = CliRunner().invoke(app, [str(folder), "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    (failure,) = json.loads(result.stdout)["failures"]
    return dict(failure)


def started(*ranks: int) -> str:
    """Ranks that initialised NCCL, on their node."""
    return "".join(
        f"[default{rank % 2}]:{NODES[rank // 2]}:10{rank}:20 [{rank % 2}] NCCL INFO comm 0x1 "
        f"rank {rank} nranks 4 cudaDev {rank % 2} - Init COMPLETE\n"
        for rank in ranks
    )


def timed_out(*ranks: int, number: int = 7) -> str:
    return "".join(
        f"[default{rank % 2}]:[rank{rank}]:[E808 10:00:00.000000001 ProcessGroupNCCL.cpp:629] "
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds "
        "before timing out.\n"
        for rank in ranks
    )


def iterations(*numbers: int, second: int, minute: int = 0) -> str:
    """Lines of completed iterations, one a second, from ``minute`` and ``second`` after ten."""
    return "".join(
        f"[default1]: [2026-08-08 10:{minute:02d}:{second + place:02d}.000000] iteration "
        f"{number:8d}/     100 | consumed samples: 8 | elapsed time per iteration (ms): 1000.0 |\n"
        for place, number in enumerate(numbers)
    )


INDEX, TYPE, BUSY = (
    f"[default1]:Traceback (most recent call last):\n[default1]:{error}\n"
    for error in ("IndexError: 3", "TypeError: no", "OSError: busy")
)
AGENT = (
    "E0808 10:00:00.000001 9 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: {}) local_rank: {} (pid: 5) of binary: /usr/bin/python3\n"
)
BOTH, FIRST = started(2, 3), started(0, 1) + timed_out(0, 1)


@pytest.mark.parametrize(
    ("logs", "right"),
    [
        ((FIRST, BOTH + timed_out(3)), {"stage": "hang", "node": "b", "rank": 2}),
        ((started(0) + timed_out(0),), {"stage": "hang", "node": "b"}),
        (
            (timed_out(0) + timed_out(1, number=6), timed_out(2, 3)),
            {"node": "a", "rank": 1, "cause": "collective_mismatch"},
        ),
        ((FIRST, BOTH + INDEX), {"node": "b", "rank": 3, "cause": "index_error"}),
        ((started(0, 1) + TYPE, BOTH + TYPE), {"node": None}),
        ((INDEX, BOTH + BUSY + iterations(5, 6, 7, second=1)), {"node": "a"}),
        (
            (started(0, 1) + AGENT.format(-6, 0), BOTH + AGENT.format(-9, 1)),
            {"node": "b", "rank": 3},
        ),
    ],
    ids=[
        "silent",
        "no line of a node",
        "another collective",
        "an exception",
        "one of all nodes",
        "overcome",
        "killed",
    ],
)
def test_a_failure_is_apart_from_its_reports(
    tmp_path: Path, logs: tuple[str, ...], right: dict[str, Any]
) -> None:
    failure = diagnosed(tmp_path, dict(zip(("a.log", "b.log"), logs, strict=False)))
    assert {name: failure[name] for name in right} == right


def lost(node: str, peer: str) -> str:
    """A node with address 10.0.0.NODE lost its connection to another."""
    where = f"[default0]:{node}:100:20 [0]"
    return (
        f"{where} NCCL INFO Bootstrap : Using eth0:10.0.0.{ord(node)}<0>\n"
        f"{where} misc/socket.cc:49 NCCL WARN Net : Connection closed by remote peer "
        f"10.0.0.{ord(peer)}<4000>\n"
    )


def test_the_node_that_most_lost_connections_share_failed(tmp_path: Path) -> None:
    """Slurm saw another node end first."""
    logs = {"a.log": lost("a", "b"), "b.log": lost("b", "c"), "c.log": lost("c", "b")}
    batch = "srun: error: c: task 2: Exited with exit code 1\n"
    failure = diagnosed(tmp_path, logs, batch, nodes=("a", "b", "c"))
    assert failure["node"] == "b"


def test_connections_of_a_card_without_a_link_belong_to_its_fault(tmp_path: Path) -> None:
    down = "[  100.000001] mlx5_core 0000:1a:00.0 ens5np0: Link down\n"
    logs = {"a.log": lost("a", "b"), "b.log": lost("b", "a"), "b.kernel.log": down}
    failure = diagnosed(tmp_path, logs)
    assert (failure["node"], failure["cause"]) == ("b", "nic_down")
    assert "closed by remote peer 10.0.0.97" in failure["because"]


SILENT = {"gpu_hang", "transport_stall", "loader_deadlock", "process_stopped"}
STATUS = (
    "[default1]:[rank{0}]:[E808 10:00:00.000000002 ProcessGroupNCCL.cpp:630] [Rank {0}] failure "
    "detected by watchdog at work sequence id: 7, last enqueued work: 8, last completed work: 6\n"
)


@pytest.mark.parametrize(
    ("there", "causes"),
    [
        (timed_out(3) + STATUS.format(3), {"process_stopped"}),
        (timed_out(3), SILENT),
        ("", {*SILENT, "lock_held"}),
    ],
    ids=["only one is silent", "no version that shows states", "nothing of the node was kept"],
)
def test_what_a_silent_rank_can_mean_depends_on_who_would_have_printed(
    tmp_path: Path, there: str, causes: set[str]
) -> None:
    logs = {"a.log": FIRST, "b.log": (BOTH + there) * bool(there)}
    failure = diagnosed(tmp_path, logs)
    assert failure["node"] == "b"
    assert set(json.loads(failure["or_causes"])) == causes


def test_secondary_errors_of_the_driver_are_no_cause(tmp_path: Path) -> None:
    xid = "[  10.000000] NVRM: Xid (PCI:0000:1b:00): {}, pid=101, name=python3, text\n"
    logs = {"a.kernel.log": xid.format(45), "b.kernel.log": xid.format(79)}
    failure = diagnosed(tmp_path, logs)
    assert (failure["node"], failure["cause"]) == ("b", "gpu_lost")


def test_causes_that_symptoms_do_not_tell_apart_are_named_together(tmp_path: Path) -> None:
    """21 of infrastructure and 41 of users (ByteRobust, Table 2)."""
    raised = (
        "[default0]:Traceback (most recent call last):\n"
        "[default0]:RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    failure = diagnosed(tmp_path, {"a.log": raised, "b.log": started(2, 3)})
    shares = json.loads(failure["or_causes"])
    assert shares["illegal_access_user"] == pytest.approx(41 / 62, abs=1e-3)


def test_iterations_that_become_longer_are_slow_from_the_first(tmp_path: Path) -> None:
    line = (
        " iteration {:8d}/     100 | consumed samples: 8 | elapsed time per iteration (ms): {} |\n"
    )
    times = [1000 + step % 3 for step in range(20)] + [1400 + step % 3 for step in range(10)]
    text = "".join(line.format(number + 1, ms) for number, ms in enumerate(times))
    failure = diagnosed(tmp_path, {"a.log": text})
    assert (failure["stage"], failure["iteration"]) == ("slow", 21)


def test_a_fault_on_another_node_is_overcome_by_its_time(tmp_path: Path) -> None:
    def xid(second: int, number: int) -> str:
        return (
            f"2026-08-08T10:00:{second:02d}.000000+00:00 a kernel: NVRM: Xid (PCI:0000:1b:00): "
            f"{number}, pid=101, name=python3, text\n"
        )

    raised = "[default0]:Traceback (most recent call last):\n[default0]:KeyError: 'x'\n"
    later = BOTH + iterations(*range(1, 31), second=2) + raised
    logs = {"a.kernel.log": xid(1, 63), "b.log": later}
    failure = diagnosed(tmp_path, logs)
    assert (failure["node"], failure["cause"]) == ("b", "key_error")


@pytest.mark.parametrize("passed", ["rendezvous", "iterations"])
def test_clocks_are_aligned_by_what_all_nodes_pass_together(tmp_path: Path, passed: str) -> None:
    """Node a is a minute behind: by its own clock, the job went on after its fault."""

    def shown(minute: int) -> str:
        if passed == "iterations":
            return iterations(1, 2, 3, second=0, minute=minute)
        return (
            f"I0808 10:{minute:02d}:00.0 7 api.py:9] [default] Rendezvous complete for workers.\n"
        )

    at = "2026-08-08T10:00:40.000000+00:00"
    logs = {
        "a.log": shown(0),
        "a.kernel.log": f"{at} a kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1, text\n",
        "b.log": shown(1) + iterations(4, 5, 6, second=6, minute=1),
    }
    failure = diagnosed(tmp_path, logs)
    assert (failure["node"], failure["cause"]) == ("a", "gpu_lost")
