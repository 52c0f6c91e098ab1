"""Methods of other packages: whatever they do is one result with a reason, and nothing else."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from llmprism import methods
from llmprism.isolation.runner import Limits, MethodError
from llmprism.pipeline import diagnose
from prism_common.errors import UserError
from small_jobs import make_world, read_world

METHODS = """
import os, subprocess, sys, time
import numpy as np
import pandas as pd

TRUTH = {truth!r}

def good(flows, topology, progress):
    progress(0.5, "half")
    records = flows.as_table().to_pandas()
    ends = pd.unique(pd.concat([records["src"], records["dst"]]).astype(str))
    return {{"jobs": pd.DataFrame({{"address": ends, "job": "all", "mood": "good"}})}}

def surroundings(flows, topology, progress):
    print(os.getcwd(), sorted(os.environ), sys.argv)
    raise SystemExit(" ".join([*sorted(os.environ), *sys.argv, *os.listdir(), *os.listdir("..")]))

def crashes(flows, topology, progress):
    raise ValueError("no such luck")

def dies(flows, topology, progress):
    os.abort()

def hangs(flows, topology, progress):
    subprocess.Popen(["setsid", "sh", "-c", "sleep 20; touch " + TRUTH + ".survived"])
    time.sleep(60)

def leaves(flows, topology, progress):
    subprocess.Popen(["setsid", "sh", "-c", "sleep 8; touch " + TRUTH + ".survived"])
    return good(flows, topology, progress)

def grows(flows, topology, progress):
    kept = [np.ones(1 << 24) for _ in range(40)]

def invalid(flows, topology, progress):
    steps = pd.DataFrame({{"job": ["a", "a"], "address": flows.addresses[0], "step": 0,
        "start_ns": 5, "end_ns": 3, "confidence": 1.5}})
    return {{"steps": steps, "jobs": pd.DataFrame({{"job": ["a"], "address": ["10.99.99.99"]}})}}
"""


@pytest.fixture
def world() -> Any:
    """A small world of one job."""
    return make_world(steps=4)


@pytest.fixture
def run_folder(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a truth, and a module of methods in the present folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    world.save(folder)
    (folder / "truth").mkdir()
    pd.DataFrame({"culprit": ["s0003"]}).to_parquet(folder / "truth" / "faults.parquet")
    (folder / "manifest.json").write_text('{"scenario": "secret"}')
    (tmp_path / "foreign_methods.py").write_text(METHODS.format(truth=str(folder / "truth")))
    monkeypatch.chdir(tmp_path)
    return folder


def apart(folder: Path, name: str, **limits: Any) -> Any:
    given = Limits(**{"time_s": 120.0, **limits})
    files = folder / "flows.parquet", folder / "topology.json"
    return diagnose(*files, method=f"foreign_methods:{name}", limits=given)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_its_tables_are_the_diagnosis(run_folder: Path, world: Any) -> None:
    diagnosis = apart(run_folder, "good")
    assert set(diagnosis.jobs["address"]) == set(world.ranks["address"])
    assert diagnosis.jobs.columns.tolist() == ["job", "address", "mood", "server"]
    assert diagnosis.method == "foreign_methods:good"
    assert diagnosis.steps.empty


@pytest.mark.parametrize(
    ("name", "limits", "reason", "text"),
    [
        ("crashes", {}, "crashed", r"ValueError: no such luck \(foreign_methods.py:\d+\)"),
        ("dies", {}, "crashed", r"signal 6"),
        ("grows", {"memory_bytes": 1 << 30}, "out of memory", "the limit of 1 GiB"),
    ],
)
def test_a_failure_has_a_reason_and_changes_nothing(
    run_folder: Path, name: str, limits: dict[str, Any], reason: str, text: str
) -> None:
    before = contents(run_folder)
    with pytest.raises(MethodError, match=text) as failure:
        apart(run_folder, name, **limits)
    assert failure.value.reason == reason
    assert contents(run_folder) == before


def test_a_hang_ends_with_all_its_processes(run_folder: Path) -> None:
    began = time.monotonic()
    with pytest.raises(MethodError, match="limit of 15 s") as failure:
        apart(run_folder, "hangs", time_s=15.0)
    assert failure.value.reason == "timed out"
    assert time.monotonic() - began < 45
    time.sleep(max(0.0, began + 40.0 - time.monotonic()))
    assert not (run_folder / "truth.survived").exists(), "nor does the shell go on"


def test_what_a_method_leaves_running_ends_with_it(run_folder: Path) -> None:
    assert len(apart(run_folder, "leaves").jobs) > 0
    time.sleep(10.0)
    assert not (run_folder / "truth.survived").exists()


def test_a_module_in_the_present_folder_goes_before_an_installed_one(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/foreign_methods.py").write_text("def good(*_):\n    raise ValueError\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert len(apart(run_folder, "good").jobs) > 0
    assert methods.files_of("foreign_methods:good") == [tmp_path / "foreign_methods.py"]


def test_every_invalid_value_is_reported(run_folder: Path) -> None:
    with pytest.raises(MethodError) as failure:
        apart(run_folder, "invalid")
    assert failure.value.reason == "invalid tables"
    reported = str(failure.value)
    for text in (
        "jobs.parquet: address is not an address of the topology",
        "steps.parquet lacks the columns dp_end_ns",
    ):
        assert text in reported


def test_nothing_around_it_names_the_run(run_folder: Path) -> None:
    with pytest.raises(MethodError) as failure:
        apart(run_folder, "surroundings")
    for name in ("truth", "manifest", "PYTHONPATH", "PWD", str(run_folder)):
        assert name not in str(failure.value)
    assert "flows.parquet" in str(failure.value)
    assert "topology.json" in str(failure.value)


def test_an_unknown_module_is_refused_before_anything_runs(run_folder: Path) -> None:
    with pytest.raises(UserError, match="there is no module or package 'nowhere'"):
        diagnose(run_folder / "flows.parquet", run_folder / "topology.json", "nowhere:method")


def test_the_records_that_it_gets_are_those_of_the_file(world: Any) -> None:
    flows, _ = read_world(world)
    table = flows.as_table().to_pandas()
    assert len(table) == len(flows)
    assert table["bytes"].tolist() == flows.bytes.tolist()
    assert table["src"].tolist() == [flows.addresses[code] for code in flows.src]
