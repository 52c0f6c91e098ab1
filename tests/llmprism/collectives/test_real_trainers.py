"""Real trainers: their own times of collectives name the rank that flows of the same run name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from llmprism.cli import app
from llmprism.pipeline import diagnose

LAB = Path(__file__).parents[2] / "fixtures" / "lab"
COLUMNS = "communicator,rank,ranks,nodes,host,process,operation,number,bytes,exec_us,end_us"


def collectives_of(case: Path) -> pd.DataFrame:
    ranks = pd.read_parquet(case / "truth" / "ranks.parquet")
    own = pd.read_parquet(case / "truth" / "spans.parquet").query("kind == 'allreduce'")
    own = own.merge(ranks[["rank", "server"]], on="rank").sort_values("start_ns")
    us = own[["start_ns", "end_ns"]] // 1000
    return own.assign(
        communicator="all", ranks=len(ranks), nodes=len(ranks), host=own["server"],
        process=own["rank"], operation="AllReduce", number=own.groupby("rank").cumcount(),
        bytes=own["bytes"].astype(int), exec_us=us["end_ns"] - us["start_ns"], end_us=us["end_ns"],
    )[COLUMNS.split(",")]  # fmt: skip


@pytest.mark.parametrize("case", ["ddp8-slow-rank", "ddp4"])
def test_flows_and_collectives_of_one_run_agree_with_its_truth(tmp_path, case):
    folder, table, out = LAB / case, tmp_path / "own.csv", tmp_path / "out"
    collectives_of(folder).to_csv(table, index=False)
    columns = ",".join(f"{name}={name}" for name in COLUMNS.split(","))
    options = ["--map", columns, "--topology", folder / "topology.json", "--out", out]
    result = CliRunner().invoke(app, ["collectives", str(table), *map(str, options)])
    assert result.exit_code == 0, result.output
    inside = pd.read_parquet(out / "findings.parquet")
    outside = diagnose(folder / "flows.parquet", folder / "topology.json", method="prism").findings
    true = pd.read_parquet(folder / "truth" / "faults.parquet")["culprit"].tolist()
    assert inside["culprit"].tolist() == outside["culprit"].tolist() == true
