"""The command line for tests; stand-ins can replace the slow stages."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from llmprism.conclusion import conclude
from llmprism.verdict import RecordsVerdict

PAIR = """\
cluster:
  servers: 2
  fabric: {kind: tor, leaf_ports: 8, spines: 2}
jobs:
  - name: solo
    model: {layers: 4, hidden: 64, heads: 4, vocab: 100, sequence_length: 32}
    dp: 3
    pp: 2
    tp: 2
    placement: spread
    micro_batches: 4
    steps: 3
"""


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A scenario file that takes a moment to simulate."""
    path = tmp_path / "pair.yaml"
    path.write_text(PAIR)
    return path


FIGURES: dict[str, float | None] = {
    "jobs.true": 2,
    "jobs.found": 2,
    "jobs.exact": 1,
    "jobs.accuracy": 0.5,
    "pairs.missing": 3,
    "timeline.coverage": 0.99,
    "timeline.steps_split": 32,
    "timeline.step_error_mean": 0.002,
    "timeline.step_error_bias": -0.01,
    "timeline.per_job.alpha.coverage": 0.5,
    "faults.findings": 7,
    "faults.recall": None,
    "faults.false_alarms_per_1000_job_steps": 4.0,
}


class StandInScore:
    """The parts of a score that commands use: its figures, and a JSON document."""

    figures = FIGURES

    @staticmethod
    def to_json() -> dict[str, Any]:
        return {"jobs": {"accuracy": FIGURES["jobs.accuracy"]}}


class _Diagnosis:
    verdict = RecordsVerdict()
    conclusion = conclude([], [], 1, 0)
    findings = pd.DataFrame({"finding": []})

    def texts(self, _: object) -> list[str]:
        return []

    def write_files(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "jobs.parquet").write_bytes(b"")

    def summary(self) -> dict[str, Any]:
        job = {"job": "job-0", "addresses": 1, "steps": 3, "findings": 1}
        intake = {"rows": 10, "kept": 8, "set_aside": {"no such address": 2}}
        found: dict[str, Any] = {"jobs": [job], "findings": [{}], "conclusion": []}
        return {"method": "paper", "intake": intake, **found}


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Diagnosis, score and report replaced by stubs; the calls they get, in order."""
    calls: list[tuple[str, ...]] = []

    def diagnose(
        flows_path: Path, topology_path: Path, method: str = "paper", **_: object
    ) -> _Diagnosis:
        calls.append(("diagnose", flows_path.name, topology_path.name, method))
        return _Diagnosis()

    def score_run(run: Any) -> StandInScore:
        calls.append(("score", str(run.folder)))
        run.score.write_text(json.dumps(StandInScore.to_json()))
        return StandInScore()

    def render_run(run: Any, *_: object) -> None:
        calls.append(("report", str(run.folder)))
        run.report.write_text("<html>")

    monkeypatch.setattr("llmprism.pipeline.diagnose", diagnose)
    monkeypatch.setattr(import_module("prism_sim.score"), "score_run", score_run)
    monkeypatch.setattr("prism_sim.render.render_run", render_run)
    monkeypatch.setattr("prism_sim.render.table.score_table", lambda _: "the table")
    return calls
