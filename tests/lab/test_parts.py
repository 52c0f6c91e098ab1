"""Parts of the lab that need neither root nor a network."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import needs
from lab.case import find, read_case
from lab.faults import FaultWindows, Report
from lab.fixture import cut
from lab.network import Network
from lab.plan import JobPlan, plans
from lab.processes import Processes
from lab.resolver import answer
from lab.trainers.order import one_forward_one_backward
from lab.trainers.recording import Passes, RankRecorder
from lab.truth import kind_of
from prism_common.errors import UserError
from prism_sim.toolkit import topology_of


def plan_of(name: str, room: Path) -> JobPlan:
    return plans(read_case(find(name)), room, room / "reports")[0]


@pytest.mark.parametrize("stage", range(4))
def test_1f1b_has_its_published_properties(stage: int) -> None:
    """Each micro-batch once each way, in order; at most stages - stage of them are under way."""
    order = list(one_forward_one_backward(stage, 4, 8))
    for kind in ("fwd", "bwd"):
        assert [m for what, m in order if what == kind] == list(range(8))
    under_way = 0
    for kind, _ in order:
        under_way += 1 if kind == "fwd" else -1
        assert 0 <= under_way <= 4 - stage


def query(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)


def test_the_name_server_knows_only_servers() -> None:
    names = {"s0003": "10.0.3.1"}
    known = answer(query("s0003.lab", 1), names)
    assert known[:2] == struct.pack(">H", 7)
    assert known.endswith(socket.inet_aton("10.0.3.1"))
    assert struct.unpack_from(">HHHHH", known, 2) == (0x8180, 1, 1, 0, 0)
    of_ipv6 = answer(query("s0003", 28), names)
    assert struct.unpack_from(">HHHHH", of_ipv6, 2) == (0x8180, 1, 0, 0, 0)
    unknown = answer(query("example.org", 1), names)
    assert struct.unpack_from(">HHHHH", unknown, 2) == (0x8183, 1, 0, 0, 0)


def test_a_rank_records_its_steps_its_passes_and_the_slow_ones(tmp_path: Path) -> None:
    plan = plan_of("short", tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reports:
        reports.bind(plan.reports)
        recorder = RankRecorder(plan, 1)
        passes = Passes(recorder)
        factors = []
        for _ in recorder.steps():
            passes.begin_step()
            if recorder.step < 1:
                passes.whole("fwd")
                passes.whole("bwd")
            factors.append(recorder.duration_factor())
            if recorder.step == 8:
                break
    assert factors == [1.0] * 6 + [2.5] * 3
    recorder.write()
    assert (tmp_path / "truth-A-1.json").exists()


def test_passes_are_spans_from_their_first_unit_to_their_last(tmp_path: Path) -> None:
    plan = plan_of("dp4pp2", tmp_path)
    recorder: Any = RankRecorder(plan, 0)
    passes = Passes(recorder)
    passes.begin_step()
    passes.whole("fwd")
    passes.whole("bwd")
    forward, backward = recorder._spans
    assert (forward["kind"], backward["kind"]) == ("fwd", "bwd")
    length_ns = forward["end_ns"] - forward["start_ns"]
    assert length_ns >= 0.7 * plan.stages[0].forward_ns


@pytest.mark.parametrize(
    ("name", "a", "b", "kind"),
    [("dp4pp2", 0, 1, "dp"), ("dp4pp2", 0, 4, "pp"), ("dp4pp2", 0, 5, "other"),
     ("tp4dp2", 0, 3, "tp"), ("tp4dp2", 0, 4, "dp")],
)  # fmt: skip
def test_pairs_follow_from_the_layout(name: str, a: int, b: int, kind: str, tmp_path: Path) -> None:
    assert kind_of(plan_of(name, tmp_path), a, b) == kind


class RecordedNetwork(Network):
    """A network of which only the changes of rates are kept."""

    def __post_init__(self) -> None:
        self.changes: list[tuple[tuple[str, str], float]] = []
        self.server_of = {e["address"]: e["server"] for e in self.topology["endpoints"]}
        self.cables = {(link["a"], link["b"]): None for link in self.topology["links"]}

    def scale(self, ends: tuple[str, str], factor: float) -> None:
        self.changes.append((ends, factor))


def windows_of(name: str, room: Path) -> tuple[FaultWindows, RecordedNetwork]:
    case = read_case(find(name))
    network = RecordedNetwork(topology_of(case.scenario.cluster).to_json(), 20_000)
    network.__post_init__()
    return FaultWindows(case, network, plans(case, room, room)), network


@pytest.mark.parametrize(
    ("name", "cables", "culprit"),
    [("dp2pp4-slow-spine", 4, ("switch", "spine01")),
     ("mpi-ring8-slow-link", 1, ("link", "leaf001|spine00")),
     ("dp4pp2-slow-nic", 1, ("address", "10.0.6.1")),
     ("dp4pp2-slow-rank", 0, ("address", "10.0.6.1"))],
)  # fmt: skip
def test_a_fault_lasts_from_its_first_step_to_the_one_after_its_last(
    name: str, cables: int, culprit: tuple[str, str], tmp_path: Path
) -> None:
    windows, network = windows_of(name, tmp_path)
    fault = windows.all[0]
    for step in range(30):
        for rank in range(8):
            windows.take(Report("A", rank, step, 1000 * step + rank, 0))
    slowed = {ends for ends, factor in network.changes if factor < 1}
    assert len(slowed) == cables
    assert [factor for _, factor in network.changes].count(1.0) == cables
    assert windows.culprit(fault) == culprit
    assert len(windows.begun[0]) == 2
    if not cables:  # a rank's window is that of its own steps
        assert windows.begun[0] == [12_002, 19_002]


def test_missing_tools_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(needs.shutil, "which", lambda _: None)
    monkeypatch.setattr(needs.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError) as caught:
        needs.check(mpi=True)
    message = str(caught.value)
    assert "needs root" in message
    assert "apt-get install -y" in message
    assert "tcpdump" in message
    assert "openmpi-bin" in message
    assert "'.[lab]'" in message


def test_processes_end_when_their_run_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    started: list[subprocess.Popen[bytes]] = []

    def run() -> None:
        with Processes(tmp_path) as processes:
            started.extend(
                processes.start(command, str(n), ends_with=signal.SIGINT) for n in range(2)
            )
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(started) == 2
    assert all(one.poll() is not None for one in started)


def test_a_piece_of_a_capture_begins_and_ends_where_asked() -> None:
    packets = [struct.pack("<IIII", 5, n, 3, 3) + bytes([n] * 3) for n in range(9)]
    capture = bytes(24) + b"".join(packets)
    assert cut(capture, 5_000_000_004, 3) == bytes(24) + b"".join(packets[4:7])
