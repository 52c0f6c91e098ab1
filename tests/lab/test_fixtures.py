"""The committed captures of the lab: whole, small, and what their cases announce."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from lab.case import CASES, LabCase, find, read_case
from lab.records import GAPS_MS, flows_name
from llmprism.ingest.coarser import coarser
from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import Source
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, score_run

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lab"
NAMES = sorted(path.name for path in FIXTURES.glob("*/"))
CAPTURES = [f"../captures/{name}" for name in ("b_dp4pp2", "c_two_jobs", "a2_ddp4")]
"""Captures of before the lab; each has a flow table of each idle gap too."""
MB = 1_000_000


@cache
def flows_of(name: str, gap_ms: int) -> pd.DataFrame:
    frame = pd.read_parquet(FIXTURES / name / flows_name(gap_ms))
    return frame.astype({"src": str, "dst": str, "path": str})


@cache
def case_of(name: str) -> LabCase:
    return read_case(find(name))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_every_case_has_a_capture_and_they_are_small() -> None:
    assert set(NAMES) == {path.stem for path in CASES.glob("*.yaml")}
    assert max(size_of(FIXTURES / name) for name in NAMES) <= MB
    assert size_of(FIXTURES) <= 10 * MB


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_is_what_the_case_announces(name: str) -> None:
    case, run = case_of(name), Run(FIXTURES / name)
    ranks, steps, faults = (run.truth(table) for table in ("ranks", "steps", "faults"))
    for job in case.jobs:
        own = steps[steps["job"] == job.name]
        assert (
            own.groupby("rank")["step"].apply(sorted).tolist()
            == [list(range(job.steps))] * job.ranks
        )
        assert (ranks["job"] == job.name).sum() == job.ranks
    assert (steps["end_ns"] > steps["start_ns"]).all()
    expected = [*(f.kind for f in case.scenario.faults), *("pause" for _ in case.lab.pauses)]
    assert faults["kind"].tolist() == expected
    assert (faults["end_ns"] > faults["start_ns"]).all()
    known = {"dp", "pp", "tp", "other"}
    assert set(run.truth("pairs")["kind"]) <= known


@pytest.mark.parametrize("name", [*NAMES, *CAPTURES])
def test_flow_tables_of_four_gaps_are_nested(name: str) -> None:
    columns = ["start_ns", "end_ns", "bytes", "packets"]
    for gap_ms in GAPS_MS[1:]:
        made = coarser(flows_of(name, GAPS_MS[0]), gap_ms * 1e6)
        assert in_order(made[columns]).equals(in_order(flows_of(name, gap_ms)[columns]))


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(list(frame.columns)).reset_index(drop=True)


@pytest.mark.parametrize("name", NAMES)
def test_paths_lead_from_the_source_s_leaf_to_the_destination_s(name: str) -> None:
    topology = Run(FIXTURES / name).read_json(FIXTURES / name / "topology.json")
    leaf = {end["address"]: end["switch"] for end in topology["endpoints"]}
    flows = flows_of(name, 5)
    between = flows[flows["src"].isin(leaf) & flows["dst"].isin(leaf)]
    assert len(between) > 0.9 * len(flows)
    for src, dst, path in between[["src", "dst", "path"]].drop_duplicates().itertuples(index=False):
        hops = path.split("|")
        assert hops[0] == leaf[src]
        assert hops[-1] == leaf[dst]
        assert len(hops) == (1 if leaf[src] == leaf[dst] else 3)


@pytest.mark.parametrize("name", NAMES)
def test_the_raw_piece_is_read_as_the_flow_table_was(name: str, tmp_path: Path) -> None:
    """Every 5-tuple of the piece is in the flow table of the whole capture."""
    target = tmp_path / "flows.parquet"
    done = ingest([Source(FIXTURES / name / "raw" / "leaf000.pcap.gz")], target, Options())
    piece = pd.read_parquet(target)
    assert done.notes.records == len(piece) > 0
    key = ["src", "dst", "src_port", "dst_port", "protocol"]
    whole = set(flows_of(name, 5)[key].itertuples(index=False, name=None))
    tcp = piece[piece["protocol"] == 6].astype({"src_port": "int32", "dst_port": "int32"})
    assert set(tcp[key].itertuples(index=False, name=None)) <= whole


@pytest.mark.parametrize("name", NAMES)
def test_exports_count_most_bytes_and_none_twice(name: str) -> None:
    """softflowd drops what is still open when it ends, at most a few seconds of traffic."""
    exported = pd.read_parquet(FIXTURES / name / "flows_netflow.parquet")
    ranks = set(Run(FIXTURES / name).truth("ranks")["address"])
    ours = flows_of(name, 5)
    sent = [one[one["src"].isin(ranks)]["bytes"].sum() for one in (exported, ours)]
    assert 0.85 < sent[0] / sent[1] < 1.02


def test_a_capture_is_a_run_that_can_be_scored(tmp_path: Path) -> None:
    run = Run(shutil.copytree(FIXTURES / "short", tmp_path / "short"))
    diagnose(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
    score = score_run(run).to_json()
    assert score["jobs"]["exact"] == score["jobs"]["true"] == 1
    assert score["faults"]["injected"] == 1
