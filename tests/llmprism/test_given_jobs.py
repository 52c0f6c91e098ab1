"""Jobs and layouts that an operator gives, in place of what records show."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from llmprism.cli import app

CAPTURE = Path(__file__).parents[1] / "fixtures" / "captures" / "c_two_jobs"


def test_given_members_and_sizes_are_taken_and_contradictions_are_told(tmp_path: Path) -> None:
    ranks = pd.read_parquet(CAPTURE / "truth" / "ranks.parquet")
    first = sorted(ranks["job"].unique())[0]
    servers = " ".join(sorted(ranks.loc[ranks["job"] == first, "server"]))
    given = tmp_path / "jobs.csv"
    given.write_text(f"job,servers,begin,end,dp\nllama,{servers},,,8\n", encoding="utf-8")
    out = tmp_path / "tables"
    command = ["diagnose", str(CAPTURE), "--jobs", str(given), "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "dp is given as 8, and records show" in result.stderr
    jobs, layouts = (pd.read_parquet(out / f"{name}.parquet") for name in ("jobs", "layouts"))
    (name,) = jobs.loc[jobs["name"] == "llama", "job"].unique()
    assert set(jobs.loc[jobs["job"] == name, "server"]) == set(servers.split())
    layout = layouts.set_index("job").loc[name]
    assert layout["dp"] == 8
    assert json.loads(layout["evidence"])["given"] == ["members", "dp"]
