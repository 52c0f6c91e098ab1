"""A file diagnosed on a cluster has the tables of the same file on one machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dask_clusters import dask_cluster
from llmprism.cli import app
from processes import completed, started
from watching import LLMPRISM

WITHOUT_DASK = (
    "import sys; sys.modules['distributed'] = None; from llmprism.cli import main; main()"
)


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_tables_are_those_of_one_machine_though_a_worker_is_killed(
    tenants: Any, tmp_path: Path
) -> None:
    flows, topology = map(str, tenants.save(tmp_path))
    command = [*LLMPRISM, flows, "--topology", topology, "--at-once", "3000", "--quiet"]
    with dask_cluster(tmp_path) as cluster:
        options = ["--cluster", cluster.address, "--out", "on-cluster"]
        with started([*command, *options], tmp_path) as process:
            cluster.kill_a_busy_worker()
            out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert sorted(worker.poll() is None for worker in cluster.workers) == [False, True]
    alone = completed([*command, "--out", "alone"], tmp_path)
    assert (out, err) == (alone.stdout, alone.stderr)
    assert tables(tmp_path / "on-cluster") == tables(tmp_path / "alone")
    assert len(tables(tmp_path / "alone")) == 8


def test_a_scheduler_that_does_not_answer_is_an_error(tenants: Any, tmp_path: Path) -> None:
    flows, topology = map(str, tenants.save(tmp_path))
    options = [flows, "--topology", topology, "--cluster", "tcp://127.0.0.1:9"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 1
    assert "--cluster tcp://127.0.0.1:9: no Dask scheduler answers" in done.stderr


def test_without_dask_the_extra_is_named(tenants: Any, tmp_path: Path) -> None:
    flows, topology = map(str, tenants.save(tmp_path))
    command = [sys.executable, "-c", WITHOUT_DASK, flows, "--topology", topology]
    done = completed([*command, "--cluster", "tcp://127.0.0.1:9"], tmp_path)
    assert done.returncode == 1
    assert "pip install 'llmprism[dask]'" in done.stderr
