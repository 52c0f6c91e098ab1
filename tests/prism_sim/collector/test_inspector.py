"""What libraries write of collectives is exact: begins, ends and sizes are those of the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import prism_sim as ps

SCENARIO = {
    "cluster": {"servers": 2, "gpus_per_server": 4, "nics_per_server": 4, "nic_gbps": 100,
                "fabric": {"kind": "rail", "leaf_ports": 4, "spines": 1}},
    "jobs": [{"name": "a", "model": "llama-7b", "dp": 4, "pp": 2, "micro_batches": 2, "steps": 3,
              "compute_jitter": 0.02}],
}  # fmt: skip
OPERATIONS = {"reduce_scatter": "ReduceScatter", "all_gather": "AllGather"}


def simulated(folder: Path, **options) -> ps.Simulation:
    path = folder / "collectives.yaml"
    path.write_text(yaml.safe_dump({**SCENARIO, "collectives": options}), encoding="utf-8")
    return ps.simulate(path, out=folder / "run")


def lines_of(run: ps.Simulation) -> list[dict]:
    """All lines of all processes; the header of a dump is that of its records too."""
    lines = []
    for path in sorted((run.folder / "collectives").glob("*.jsonl")):
        head: dict = {}
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            head = line if "header" in line else head
            lines.append({**head, **line} if "dump_stats" not in line else line)
    return lines


def records_of(run: ps.Simulation) -> pd.DataFrame:
    """Process, operation and times of each record."""
    rows = []
    for line in lines_of(run):
        kind = next((kind for kind in ("coll", "p2p") if f"{kind}_perf" in line), None)
        if kind is None:
            continue
        fields = {name.removeprefix(f"{kind}_"): v for name, v in line[f"{kind}_perf"].items()}
        rows.append(
            {"op": fields[kind], "kind": kind, **line["header"], **line["metadata"], **fields}
        )
    return pd.DataFrame(rows)


def joined_and_ended(run: ps.Simulation) -> pd.DataFrame:
    """The truth: since when each rank was in each collective and in no earlier one, and its end."""
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin([*OPERATIONS])].sort_values("end_ns", kind="stable")
    before = spans.groupby(["job", "rank"])["end_ns"].shift().fillna(0).astype("int64")
    spans["begin_ns"] = np.maximum(spans["start_ns"], before)
    return spans.merge(run.truth("ranks")[["job", "rank", "server"]])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> ps.Simulation:
    return simulated(tmp_path_factory.mktemp("plain"), verbose=True, min_bytes=0)


def test_each_span_of_a_collective_is_a_record_of_the_same_length(run):
    records, spans = records_of(run), joined_and_ended(run)
    for name, operation in OPERATIONS.items():
        written = records[records["op"] == operation]
        expected = spans[spans["kind"] == name]
        lengths = ((expected["end_ns"] - expected["begin_ns"]) / 1000).round()
        assert sorted(written["exec_time_us"]) == sorted(lengths)
        assert written.groupby("hostname").size().equals(expected.groupby("server").size())


def test_all_ranks_of_a_communicator_record_the_same_operations(run):
    records = records_of(run)
    collectives = records[records["kind"] == "coll"]
    calls = collectives.groupby(["id", "op", "sn"])
    assert (calls["rank"].nunique() == calls["n_ranks"].first()).all()
    assert (calls["msg_size_bytes"].nunique() == 1).all()
    assert (calls.size() == calls["n_ranks"].first()).all()


def test_the_last_rank_has_the_shortest_time_and_others_wait_for_it(run):
    spans = joined_and_ended(run)
    calls = spans.groupby("communication")
    late_us = (spans["begin_ns"] - calls["begin_ns"].transform("min")) / 1000
    records = records_of(run)
    records = records[records["kind"] == "coll"]
    longest = records.groupby(["id", "op", "sn"])["exec_time_us"].transform("max")
    assert np.allclose(sorted(longest - records["exec_time_us"]), sorted(late_us), atol=1)


def test_both_ends_of_a_message_are_records_and_a_receive_lasts_since_it_was_posted(run):
    messages = records_of(run).query("kind == 'p2p'")
    spans = run.truth("spans")
    sent = spans[spans["kind"].str.startswith("send_")]
    assert (messages["op"].value_counts() == len(sent)).all()
    assert messages["peer"].isin([0, 1]).all()
    assert (messages["peer"] != messages["rank"]).all()
    received = messages[messages["op"] == "Recv"]["exec_time_us"]
    assert received.sum() > messages[messages["op"] == "Send"]["exec_time_us"].sum()


def test_without_the_section_the_run_is_the_same_to_the_byte(run, tmp_path):
    path = tmp_path / "collectives.yaml"
    path.write_text(yaml.safe_dump(SCENARIO), encoding="utf-8")
    plain = ps.simulate(path, out=tmp_path / "run")
    assert not (plain.folder / "collectives").exists()
    for name in ("flows.parquet", "truth/spans.parquet", "truth/steps.parquet", "topology.json"):
        assert (plain.folder / name).read_bytes() == (run.folder / name).read_bytes()


@settings(max_examples=4)
@given(
    interval_s=st.sampled_from([0.0005, 0.05, 3.0, None]),
    ring=st.sampled_from([1, 7, 1024]),
    one_in=st.sampled_from([1, 2]),
    clock_s=st.sampled_from([0.0, 2.0]),
    loss=st.sampled_from([0.0, 0.3]),
)
def test_lost_records_change_no_other_and_are_counted(
    run, tmp_path_factory, interval_s, ring, one_in, clock_s, loss
):
    folder = tmp_path_factory.mktemp("options")
    options = {"interval_s": interval_s, "ring": ring, "one_in": one_in, "clock_s": clock_s}
    made = simulated(folder, **options, loss=loss, form="v4.3", min_bytes=0)
    whole, kept, key = records_of(run), records_of(made), ["id", "hostname", "pid", "op", "sn"]
    both = kept.merge(whole, on=[*key, "kind"], suffixes=("", "_whole"))
    assert len(both) == len(kept)
    assert (both["exec_time_us"] == both["exec_time_us_whole"]).all()
    last = {}
    for line in lines_of(made):
        if "dump_stats" in line:
            last[line["header"]["id"], line["metadata"]["pid"]] = line["dump_stats"]
    dropped = sum(one[f"{kind}_dropped_total"] for one in last.values() for kind in ("coll", "p2p"))
    written = whole[whole["pid"].isin(kept["pid"])]
    assert len(kept) + dropped <= len(written)
    assert loss or len(kept) + dropped == len(written)


def test_the_export_has_every_line_in_one_file(run, tmp_path):
    from typer.testing import CliRunner

    from prism_sim.cli import app

    out = tmp_path / "all.jsonl"
    arguments = ["export", str(run.folder), "--format", "inspector", "--out", str(out)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(lines_of(run))
