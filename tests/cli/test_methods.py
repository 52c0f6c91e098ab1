"""Methods of others on the command line and from Python: new, run, compare, scoreboard, corpus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import prism_sim as ps
from processes import PRISM_SIM, completed

STRANGERS = """
def crashes(flows, topology, progress):
    raise ValueError("no such luck")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder, with a module of methods."""
    (tmp_path / "strangers.py").write_text(STRANGERS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_methods_are_compared_on_the_same_worlds(here: Path) -> None:
    found = ps.compare(
        ["autocorrelation", "strangers:crashes"], "tiny/pair",
        seeds=1, out="compared", processes=1,
    )  # fmt: skip
    table = found.table.set_index(["method", "seed"])
    assert len(table) == 3, "the null method is always there"
    assert table["reason"].dropna().groupby("method").first().to_dict() == {
        "strangers:crashes": "crashed"
    }
    assert (table.loc["strangers:crashes", "jobs.accuracy"] == 0).all()
    assert (table.loc["null", "jobs.accuracy"] == 1).all()
    assert (table.loc["autocorrelation", "peak_memory_bytes"] > 1 << 20).all()
    difference = found.groups["pair"]["differences"]["null"]["pairs.accuracy"]
    own, null = (table.loc[name, "pairs.accuracy"] for name in ("autocorrelation", "null"))
    assert difference["mean"] == pytest.approx((null - own).mean())
    assert "ValueError: no such luck" in (here / "compared" / "comparison.md").read_text()
    assert "<table>" in found._repr_html_()
    assert (here / "compared" / "comparison.html").read_text().startswith("<!doctype html>")
    assert "strangers:crashes & " in (here / "compared" / "comparison.tex").read_text()
    assert (here / "compared" / "comparison.pdf").read_bytes().startswith(b"%PDF")
    again = ps.compare(
        ["autocorrelation", "strangers:crashes"], "tiny/pair",
        seeds=1, out="compared", processes=1,
    )  # fmt: skip
    pd.testing.assert_frame_equal(again.table, found.table)  # its times, too: nothing ran


@pytest.mark.slow
def test_a_new_method_is_installed_run_and_scored(here: Path) -> None:
    made = completed([*PRISM_SIM, "new", "--method", "my-method"], here)
    assert made.returncode == 0, made.stderr
    site = here / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install = [*pip, "--no-build-isolation", "--target", str(site), "./my-method"]
    subprocess.run(install, cwd=here, check=True)
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": paths}
    done = completed(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my-method/tests"],
        here, env=environment, timeout_s=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    listed = completed([*PRISM_SIM, "list", "methods"], here, env=environment)
    assert "of another package: my_method:diagnose" in listed.stdout
    again = completed([*PRISM_SIM, "new", "--method", "my-method"], here)
    assert again.returncode == 1
    assert "the file exists" in again.stderr


def test_a_corpus_is_made_again_bit_for_bit_and_read_without_us(here: Path) -> None:
    command = [*PRISM_SIM, "corpus", "--family", "replicas", "--worlds", "1", "--quiet"]
    made = completed([*command, "--out", "corpus", "--json"], here, timeout_s=300)
    assert made.returncode == 0, made.stderr
    index = json.loads((here / "corpus" / "corpus.json").read_text())
    assert index["hash"] == json.loads(made.stdout)["hash"]
    assert index["hash"] in (here / "corpus" / "DATA_CARD.md").read_text()
    seen = {path.name for path in (here / "corpus" / "observations").rglob("*.*")}
    assert seen == {"flows.parquet", "topology.json"}
    query = "SELECT count(*) FROM 'corpus/observations/*/*/flows.parquet'"
    ((rows,),) = duckdb.sql(query).fetchall()
    (flows,) = (here / "corpus").glob("observations/replicas/0/flows.parquet")
    assert rows == len(pd.read_parquet(flows)) > 0
    checked = completed([*PRISM_SIM, "corpus", "--check", "corpus"], here, timeout_s=300)
    assert checked.returncode == 0, checked.stderr
    (here / "corpus" / "truth" / "replicas" / "0" / "scenario.json").write_text("{}")
    checked = completed([*PRISM_SIM, "corpus", "--check", "corpus"], here, timeout_s=300)
    assert checked.returncode == 1
    assert "scenario.json: the file is not that of the index" in checked.stderr


@pytest.mark.usefixtures("here")
def test_stages_and_studies_are_functions_whose_results_a_notebook_shows() -> None:
    names = {"simulate", "diagnose", "score", "run", "sweep", "whatif", "compare"}
    assert names <= set(dir(ps))
    simulated = ps.simulate("tiny/pair", set={"jobs.0.steps": 4}, out="run")
    diagnosis = ps.diagnose(simulated, method="null")
    score = ps.score(simulated)
    costs = ps.whatif("tiny/pair", {"cluster.nic_gbps": 100, "jobs.0.steps": 4}, processes=1)
    assert score["jobs"]["accuracy"] == 1
    assert costs.table["extra_s"].iloc[0] > 0, "slower NICs cost time"
    for shown in (simulated, diagnosis, score, costs):
        assert "<" in shown._repr_html_()


@pytest.mark.slow
def test_a_scoreboard_has_every_method_and_family(here: Path) -> None:
    command = [*PRISM_SIM, "scoreboard", "--family", "replicas", "--worlds", "1", "--json"]
    done = completed(command, here, timeout_s=600)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["groups"].values()
    assert {"prism", "paper", "null", "autocorrelation", "changepoints"} <= found["methods"].keys()
