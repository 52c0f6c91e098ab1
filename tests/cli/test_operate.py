"""``prism-sim operate``: the table, the files, the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import Result

from prism_sim.loading.bundled import folder

Call = Callable[..., Result]
OPTIONS = ("--out", "out", "--processes", "1", "--quiet")
STUDY = """\
servers: 500
days: 30
seeds: 3
policies:
  - name: time-out
    checkpoint: {kind: async, stall_s: 2, write_s: 60}
    detection: timeout
    localisation: pairing
    recovery: requeue
  - name: diagnoser
    checkpoint: {kind: async, stall_s: 2, write_s: 60}
    detection: {kind: diagnoser, recall: 1}
    localisation: pairing
    recovery: requeue
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def ratios(call: Call, study: Path) -> dict[str, float]:
    result = call("operate", str(study), *OPTIONS, "--json")
    assert result.exit_code == 0, result.output
    policies = json.loads(result.stdout)["policies"]
    return {name: figures["ettr"] for name, figures in policies.items()}


def test_it_has_help_worth_reading(call: Call) -> None:
    result = call("operate", "--help")
    assert result.exit_code == 0
    assert "Example: prism-sim operate " in " ".join(result.stdout.split())


def test_it_writes_a_table_and_a_picture(call: Call, study: Path) -> None:
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 0, result.output
    table = pd.read_parquet("out/operations.parquet")
    assert list(table["policy"]) == ["time-out"] * 3 + ["diagnoser"] * 3
    assert Path("out/operations.png").read_bytes().startswith(b"\x89PNG")
    assert set(json.loads(Path("out/operations.json").read_text())["policies"]) == {
        "time-out",
        "diagnoser",
    }


def test_time_is_either_kept_or_lost(call: Call, study: Path) -> None:
    """Lost GPU-hours of all causes and kept work add up to the GPU-hours of the study."""
    ratios(call, study)
    table = pd.read_parquet("out/operations.parquet")
    all_hours = 500 * 8 * 30 * 24
    kept = table["ettr"] + table["lost_gpu_hours"] / all_hours
    assert kept.to_list() == pytest.approx([1] * len(table), abs=0.002)


def test_finished_replications_are_kept(call: Call, study: Path) -> None:
    first = ratios(call, study)
    points = {path: path.stat().st_mtime_ns for path in Path("out/points").iterdir()}
    next(iter(points)).unlink()
    assert ratios(call, study) == first
    again = {path: path.stat().st_mtime_ns for path in Path("out/points").iterdir()}
    assert again.keys() == points.keys()
    assert sum(again[path] != points[path] for path in points) == 1


def test_each_part_of_diagnosis_brings_time(call: Call, study: Path) -> None:
    def variant(**changes: float) -> float:
        data = yaml.safe_load(STUDY)
        data["policies"][1]["detection"] |= changes
        study.write_text(yaml.safe_dump(data))
        return ratios(call, study)["diagnoser"]

    best = variant(recall=1)
    assert variant(recall=0.5) < best
    assert variant(precision=0.3) < best
    assert variant(delay_s=900) < best
    assert variant(recall=0) == ratios(call, study)["time-out"]


def test_a_policy_changes_nothing_of_another(call: Call, study: Path) -> None:
    both = ratios(call, study)
    data = yaml.safe_load(STUDY)
    del data["policies"][0]
    study.write_text(yaml.safe_dump(data))
    assert ratios(call, study) == {"diagnoser": both["diagnoser"]}


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("servers: 500", "servers: 0", 1, "greater than or equal to 1"),
        ("days: 30", "days: -1", 2, "greater than 0"),
        ("recall: 1", "recall: 2", 12, "less than or equal to 1"),
        ("recall: 1", "recal: 1", 12, "unknown key 'recal'"),
        ("  - name: diagnoser", "  - name: time-out", 4, "two policies"),
        ("detection: timeout", "detection: timeot", 7, "unknown kind 'timeot'"),
        ("days: 30", "days: 30\nfailures: {causes: [rust]}", 3, "no cause is called rust"),
    ],
)
def test_errors_have_their_line(
    call: Call, study: Path, old: str, new: str, line: int, what: str
) -> None:
    study.write_text(STUDY.replace(old, new))
    result = call("operate", str(study), *OPTIONS)
    assert result.exit_code == 1
    assert f"study.yaml:{line}: " in result.stderr
    assert what in result.stderr
    assert not Path("out").exists()


def test_the_bundled_study_places_the_methods_by_their_exam() -> None:
    root = Path(__file__).parents[2]
    exam = json.loads((root / "results/reference/exam.json").read_text())["sets"]["exam"]
    path = folder() / "operations" / "what-diagnosis-brings.yaml"
    policies = {one["name"]: one for one in yaml.safe_load(path.read_text())["policies"]}
    for method in ("paper", "prism"):
        detection = policies[f"standby, {method}"]["detection"]
        for figure in ("recall", "precision"):
            measured = exam[method]["findings"][figure]["value"]
            assert detection[figure] == pytest.approx(measured, abs=0.001)
