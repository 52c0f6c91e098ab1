"""A study on a Dask cluster: a real scheduler and two workers, one of which is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from dask_clusters import DaskCluster, dask_cluster
from prism_sim.cli import app
from processes import PRISM_SIM, started, wait_until

pytest.importorskip("distributed")

SCENARIO = """\
cluster: {servers: 2}
jobs:
  - {name: a, model: {layers: 4, hidden: 2048, heads: 16, vocab: 1000, sequence_length: 2048},
     dp: 4, tp: 4, micro_batches: 2, steps: 3, mfu: 0.5, compute_jitter: 0.05}
"""
STUDY = """\
scenario: base.yaml
grid: {jobs.0.micro_batches: [1, 2], jobs.0.dp: [4, 30]}
seeds: [1, 2, 3, 4]
methods: [none]
figures: [truth.step_s_mean, truth.gpu_hours]
"""
"""A job of 120 ranks does not fit on the cluster: these runs fail."""

RUNS = 8
"""Points that can run."""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(SCENARIO)
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path) as one:
        yield one


def sweep(folder: Path, out: str, *options: str) -> list[str]:
    return [*PRISM_SIM, "sweep", str(folder / "study.yaml"), "--out", out, *options]


def call(folder: Path, out: str, *options: str) -> Result:
    """Sweep in this process."""
    arguments = ["sweep", str(folder / "study.yaml"), "--out", str(folder / out), *options]
    return CliRunner().invoke(app, arguments)


def points(folder: Path, out: str) -> list[Path]:
    return [*(folder / out / "points").glob("*.json")]


@pytest.mark.slow
def test_a_study_survives_a_killed_worker_and_equals_that_of_one_process(
    study: Path, cluster: DaskCluster
) -> None:
    address, (victim, survivor) = cluster.address, cluster.workers
    command = sweep(study, "on-cluster", "--cluster", address)
    with started(command, study) as process:
        wait_until(lambda: len(points(study, "on-cluster")) >= 2 or process.poll() is not None, 120)
        os.killpg(victim.pid, signal.SIGKILL)
        left_then = RUNS - len(points(study, "on-cluster"))
        _, err = process.communicate(timeout=180)
    assert process.returncode == 1, err  # the points that do not fit
    assert survivor.poll() is None
    assert left_then > 0
    assert f"{RUNS} computed, 0 reused" in err
    assert "Traceback" not in err
    assert call(study, "one", "--processes", "1", "--quiet").exit_code == 1
    tables = [(study / out / "sweep.parquet").read_bytes() for out in ("on-cluster", "one")]
    assert tables[0] == tables[1]
    table = pd.read_parquet(study / "one" / "sweep.parquet")
    assert (table["error"].isna() == (table["jobs.0.dp"] == 4)).all()
    again = call(study, "on-cluster", "--cluster", address)
    assert f"0 computed, {RUNS} reused" in again.stderr


def test_a_worker_with_other_code_is_refused() -> None:
    from prism_sim.studies.cluster import attempt_with

    outcome = attempt_with("0.0.1+other", len, "abc")
    assert outcome.result is None
    assert outcome.error is not None
    assert "install the same version" in outcome.error


def test_a_scheduler_that_does_not_answer_is_reported(study: Path) -> None:
    done = call(study, "out", "--cluster", "tcp://127.0.0.1:9")
    assert done.exit_code == 1
    assert "--cluster tcp://127.0.0.1:9: no Dask scheduler answers" in done.stderr
    assert "dask scheduler" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (study / "out").exists()
