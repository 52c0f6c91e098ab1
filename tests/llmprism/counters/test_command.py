"""``llmprism counters`` on the command line: results, exit codes, and messages that help."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from counted import START_NS
from llmprism.counters.command import counters_app

FOLDER = Path(__file__).parents[2] / "fixtures" / "counters"
TABLE, TOPOLOGY = str(FOLDER / "production.parquet"), str(FOLDER / "topology.json")


def run(*arguments: str):
    return CliRunner().invoke(counters_app, [*arguments])


def test_the_tables_and_the_picture_are_written(tmp_path):
    out, picture = tmp_path / "out", tmp_path / "ports.png"
    done = run(TABLE, "--topology", TOPOLOGY, "--out", str(out), "--picture", str(picture))
    assert done.exit_code == 0
    assert "job-0: 4 servers, 16 NICs" in done.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    steps = pd.read_parquet(out / "steps.parquet")
    assert {"job", "address", "step", "start_ns", "end_ns", "dp_end_ns", "confidence"} <= {*steps}
    assert len(pd.read_parquet(out / "pairs.parquet")) == 0


def test_json_has_jobs_servers_and_roles():
    done = run(TABLE, "--topology", TOPOLOGY, "--json", "--quiet")
    content = json.loads(done.stdout)
    assert [len(job["servers"]) for job in content["jobs"]] == [4, 4, 4, 4]
    assert all(job["roles"][0]["nics"] == 16 for job in content["jobs"])
    assert content["servers"]["idle"] == ["n16", "n17"]


def test_ports_are_named_by_a_file(tmp_path):
    table = pd.read_parquet(TABLE)
    names = {name: f"eth{n}" for n, name in enumerate(table["port"].unique())}
    table = table.assign(port=table["port"].map(names), switch="leaf")
    table.to_csv(tmp_path / "table.csv", index=False)
    rows = [f"leaf,{port},{address}" for address, port in names.items()]
    (tmp_path / "ports.csv").write_text("\n".join(["switch,port,address", *rows]))
    given = [str(tmp_path / "table.csv"), "--topology", TOPOLOGY]
    lost = run(*given)
    assert lost.exit_code == 1
    assert "no port is an address of the topology (leaf/eth0" in lost.output
    assert "--ports FILE" in lost.output
    named = run(*given, "--ports", str(tmp_path / "ports.csv"))
    assert named.exit_code == 0
    assert "job-3: 4 servers" in named.output


def test_counters_that_show_nothing_exit_with_4(tmp_path):
    path = tmp_path / "idle.csv"
    times = START_NS + np.arange(100) * 10**9
    pd.DataFrame({"time_ns": times, "port": "10.0.0.0", "in_bytes": 5, "out_bytes": 5}).to_csv(
        path, index=False
    )
    done = run(str(path), "--topology", TOPOLOGY)
    assert done.exit_code == 4
    assert "none of the 1 ports has the traffic of a job" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([TABLE], "no topology: nobody knows which NICs share a server"),
        ([TABLE, "--topology", "absent.json"], "there is no such file"),
        (["absent.csv", "--topology", TOPOLOGY], "cannot read this"),
        ([TABLE, "--topology", TOPOLOGY, "--map", "port=nothing"], "names no column 'nothing'"),
        ([TABLE, "--topology", TOPOLOGY, "--query", "ifHCInOctets"], "--query IN --query OUT"),
        ([TABLE, "--topology", TOPOLOGY, "--picture", "a.doc"], "name a .png or .svg"),
    ],
)
def test_mistakes_are_errors_with_a_remedy(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 1
    assert message in done.output


def test_wrong_usage_exits_with_2():
    assert run().exit_code == 2
    assert run(TABLE, "--form", "rates").exit_code == 2
