"""Traces of the profiler: read in the format that PyTorch writes, and compared with the records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lab.profiles import difference_ms, keep, steps_of

BASE_NS = 1_700_000_000_000_000_000


def event(name: str, start_us: float, duration_us: float, kind: str = "user_annotation") -> dict:
    return {"ph": "X", "cat": kind, "name": name, "ts": start_us, "dur": duration_us}


def written(room: Path, *events: dict) -> Path:
    path = room / "profile-A-0.json.gz"
    trace = {"baseTimeNanoseconds": BASE_NS, "traceEvents": [{"ph": "M", "name": "x"}, *events]}
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    return path


def record(room: Path, *steps: tuple[int, int, int]) -> None:
    rows = [{"step": n, "start_ns": BASE_NS + a, "end_ns": BASE_NS + b} for n, a, b in steps]
    (room / "truth-A-0.json").write_text(json.dumps({"steps": rows, "spans": []}))


def test_steps_are_the_marks_of_the_trainer(tmp_path: Path) -> None:
    events = event("step 0", 1.5, 10), event("aten::add", 2, 3, "cpu_op"), event("step 1", 20, 5)
    steps = steps_of(written(tmp_path, *events))
    assert steps["step"].tolist() == [0, 1]
    assert (steps["start_ns"] - BASE_NS).tolist() == [1_500, 20_000]
    assert (steps["end_ns"] - BASE_NS).tolist() == [11_500, 25_000]


def test_the_difference_is_the_largest_of_any_begin_or_end(tmp_path: Path) -> None:
    written(tmp_path, event("step 0", 1_000, 10_000), event("step 1", 20_000, 5_000))
    record(tmp_path, (0, 1_000_000, 11_000_000), (1, 19_000_000, 27_500_000))
    assert keep(tmp_path, tmp_path) == {"A-0": 2.5}
    assert (tmp_path / "profiles" / "A-0.json.gz").exists()


@pytest.mark.parametrize("steps", [[(0, 0, 10)], [(0, 0, 10), (1, 20, 30), (2, 40, 50)]])
def test_a_step_that_one_of_both_lacks_is_no_agreement(
    tmp_path: Path, steps: list[tuple[int, int, int]]
) -> None:
    import pandas as pd

    traced = steps_of(written(tmp_path, event("step 0", 0, 0.01), event("step 1", 0.02, 0.01)))
    recorded = pd.DataFrame(steps, columns=["step", "start_ns", "end_ns"])
    assert difference_ms(traced, recorded) == float("inf")


def test_a_run_without_the_profiler_has_no_folder_for_it(tmp_path: Path) -> None:
    assert keep(tmp_path, tmp_path) == {}
    assert not (tmp_path / "profiles").exists()
