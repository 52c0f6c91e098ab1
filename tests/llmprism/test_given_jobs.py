"""Jobs and layouts that an operator gives, in place of what records show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from llmlog.cli import app as llmlog
from llmprism.cli import app

TABLES = ("jobs", "layouts")
CAPTURE = Path(__file__).parents[1] / "fixtures" / "captures" / "c_two_jobs"


@pytest.fixture
def diagnose(tmp_path: Path) -> Callable[[str, list[str], str], str]:
    """What a diagnosis with one given job says on stderr; its tables go to ``tables``."""

    def call(columns: str, servers: list[str], sizes: str) -> str:
        given = tmp_path / "jobs.csv"
        text = f"job,servers,begin,end{columns}\nllama,{' '.join(servers)},,{sizes}\n"
        given.write_text(text, encoding="utf-8")
        command = ["diagnose", CAPTURE, "--jobs", given, "--out", tmp_path / "tables"]
        result = CliRunner().invoke(app, [*map(str, command)])
        assert result.exit_code == 0, result.output
        return result.stderr

    return call


@pytest.fixture
def servers() -> dict[str, list[str]]:
    """Servers of each of two jobs: A has replicas only, and B stages as well."""
    ranks = pd.read_parquet(CAPTURE / "truth" / "ranks.parquet")
    return {str(job): sorted(set(own)) for job, own in ranks.groupby("job")["server"]}


def test_given_members_and_sizes_are_taken_and_contradictions_printed(
    diagnose, servers, tmp_path: Path
) -> None:
    assert "dp is given as 8, and records show" in diagnose(",dp", servers["A"], ",8")
    jobs, layouts = (pd.read_parquet(tmp_path / "tables" / f"{n}.parquet") for n in TABLES)
    (name,) = jobs.loc[jobs["name"] == "llama", "job"].unique()
    assert set(jobs.loc[jobs["job"] == name, "server"]) == set(servers["A"])
    layout = layouts.set_index("job").loc[name]
    assert (layout["dp"], json.loads(layout["evidence"])["given"]) == (8, ["members", "dp"])


def test_sizes_in_arguments_that_logs_have_are_facts(servers, tmp_path: Path) -> None:
    (logs := tmp_path / "logs").mkdir()
    for name in servers["A"]:
        (logs / f"{name}.log").write_text("  data_parallel_size .............................. 8\n")
    CliRunner().invoke(llmlog, [str(logs), "--out", str(tmp_path / "logged")])
    result = CliRunner().invoke(app, ["diagnose", str(CAPTURE), "--logs", str(tmp_path / "logged")])
    assert "dp is given as 8, and records show" in result.stderr


def test_members_that_are_missing_in_the_list_or_in_the_topology_are_printed(diagnose, servers):
    *listed, missing = servers["A"]
    printed = diagnose("", [*listed, "gpu77"], "")
    assert "given as members, and not in the topology: gpu77\n" in printed
    assert f"taken as members, as they exchange as much with given ones: {missing}\n" in printed


def test_an_axis_of_one_place_moves_nothing(diagnose, servers, tmp_path: Path) -> None:
    assert "records look like pp, which is given as 1" in diagnose(",pp", servers["B"], ",1")
    assert "pp" not in set(pd.read_parquet(tmp_path / "tables" / "pairs.parquet")["kind"])
