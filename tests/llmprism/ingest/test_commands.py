"""Ingest, check, diagnose: the three commands, on the records of a capture in a CSV file."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from llmprism.check.command import check_app
from llmprism.cli import app
from llmprism.ingest.commands import ingest_app
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find
from llmprism.network.content import infer

CAPTURE = Path(__file__).parents[2] / "fixtures" / "captures" / "a2_ddp4"


def test_three_commands_from_a_csv_to_a_diagnosis(tmp_path: Path) -> None:
    names = {"src": "srcaddr", "dst": "dstaddr", "start_ns": "first", "end_ns": "last"}
    rows = pd.read_parquet(CAPTURE / "flows.parquet").rename(columns=names)
    rows.to_csv(tmp_path / "export.csv", index=False)
    out = tmp_path / "mine"
    done = CliRunner().invoke(ingest_app, [str(tmp_path / "export.csv"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"{len(rows):,} flow records written" in done.stdout
    files = [str(out / "flows.parquet"), "--topology", str(out / "topology.json"), "--json"]
    checked = CliRunner().invoke(check_app, files)
    assert checked.exit_code == 0, checked.output
    stages = {one["stage"]: one for one in json.loads(checked.stdout)["stages"]}
    assert stages["jobs and pairs"]["answer"] == "can"
    assert stages["parallel connections"]["answer"] == "can"
    assert stages["load of links"]["mend"] == "give --topology with Gbit/s"
    diagnosed = CliRunner().invoke(app, files)
    assert diagnosed.exit_code in {0, 4}
    assert json.loads(diagnosed.stdout)["jobs"]


def test_a_source_of_which_every_record_is_set_aside_cannot_tell(tmp_path: Path) -> None:
    source, out = tmp_path / "export.csv", tmp_path / "mine"
    source.write_text("src,dst,start,end,bytes\n10.0.0.1,10.0.0.2,5,4,9\n")
    done = CliRunner().invoke(ingest_app, [str(source), "--out", str(out)])
    assert done.exit_code == 4, done.output
    assert "0 flow records written" in done.stdout
    assert "ends before it starts" in done.stderr
    assert len(pd.read_parquet(out / "flows.parquet")) == 0


@pytest.mark.parametrize("files", [1, 3])
def test_progress_goes_on_within_a_file_and_to_the_end(files: int, tmp_path: Path) -> None:
    for i in range(files):
        lines = (f"10.0.0.1,10.0.0.2,{1_700_000_000 + n},1,9\n" for n in range(150_000))
        (tmp_path / f"{i}.csv").write_text("src,dst,start,duration,bytes\n" + "".join(lines))
    seen: list[tuple[float, str]] = []
    sources = find([str(tmp_path)])
    ingest(sources, tmp_path / "f.parquet", Options(), progress=lambda *one: seen.append(one))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert len({share for share, doing in seen if "reading" in doing}) > files  # Arrow reads ahead
    assert {f"reading {i}.csv" for i in range(files)} < {doing for _, doing in seen}


def test_a_csv_of_cables_is_the_topology(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,start,end,bytes\n10.0.0.1,10.0.0.2,1,2,3\n")
    (tmp_path / "cables.csv").write_text(
        "server,NIC,address,switch,port,Gbit/s\nh0,0,10.0.0.1,l0,1,400\nh1,0,10.0.0.2,l1,1,400\n"
        "l0,,,s0,9,800\nl1,,,s0,9,800\n"
    )
    arguments = [str(tmp_path / "a.csv"), "--topology", str(tmp_path / "cables.csv")]
    done = CliRunner().invoke(ingest_app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "out" / "topology.json").read_text())
    assert [(one["server"], one["switch"]) for one in content["endpoints"]] == [
        ("h0", "l0"),
        ("h1", "l1"),
    ]
    assert {one["name"]: one["tier"] for one in content["switches"]} == {
        "l0": "leaf", "l1": "leaf", "s0": "spine",
    }  # fmt: skip
    assert {one["gbps"] for one in content["links"]} == {400, 800}


def test_paths_show_leaves_and_cables() -> None:
    content = infer({("a", "b"): 3}, {("l0|s0|l1", "a", "b"): 2, ("l0|?|l1", "a", "b"): 1})
    assert [one["switch"] for one in content["endpoints"]] == ["l0", "l1"]
    cables = {(one["a"], one["b"]) for one in content["links"]}
    assert cables == {("a", "l0"), ("b", "l1"), ("l0", "s0"), ("l1", "s0")}


@pytest.mark.parametrize("wrong", [["none.pcap"], ["none", "--map", "x"], ["none", "--from", "?"]])
def test_errors_are_short_and_exit_1(wrong: list[str]) -> None:
    done = CliRunner().invoke(ingest_app, wrong)
    assert done.exit_code == 1
    assert done.output.startswith("error: ")
    assert "Traceback" not in done.output


def _export(tmp_path: Path) -> str:
    path = tmp_path / "export.csv"
    header = "start_ns,end_ns,src,dst,bytes"
    path.write_text(f"{header}\n1000,2000,10.0.0.1,10.0.0.2,4096\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["flows.parquet", "topology.json", "ingest.json"])
def test_files_that_no_ingest_wrote_are_not_replaced(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(ingest_app, [_export(tmp_path), "--out", str(out)])
    assert done.exit_code == 1
    assert str(out / name) in done.stderr
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "mine")]


def test_an_older_ingest_is_replaced(tmp_path: Path) -> None:
    arguments = [_export(tmp_path), "--out", str(tmp_path / "out")]
    assert [CliRunner().invoke(ingest_app, arguments).exit_code for _ in range(2)] == [0, 0]


def test_a_file_and_an_empty_name_are_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export = _export(tmp_path)
    for out in ("", export):
        done = CliRunner().invoke(ingest_app, [export, "--out", out])
        assert done.exit_code == 1
        assert len(done.stderr.splitlines()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["export.csv"]
