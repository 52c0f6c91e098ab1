"""A diagnosis from the records of communication libraries, through files and the command."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import prism_sim as ps
from llmprism.cli import app
from recorder import call, dump, waiting

RANKS, STEPS, BUCKETS = 4, 12, 3
STEP_US, TRANSFER_US, LATE_US = 100_000, 2_000, 7_000
BEGIN_US = 1_767_225_600_000_000
SLOW = range(6, 9)


def record(group: int, rank: int, number: int, exec_us: float, end_us: int, **changed) -> dict:
    header = {"id": f"0x{group}", "rank": rank, "n_ranks": RANKS, "nnodes": 2}
    header |= {key: value for key, value in changed.items() if key in header}
    return {
        "header": header,
        "metadata": {"dump_timestamp_us": end_us + changed.get("ahead_us", 0),
                     "hostname": f"node{rank // 2}", "pid": 100 * (group + 1) + rank},
        "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_exec_time_us": exec_us,
                      "coll_msg_size_bytes": 1 << 20 + number % BUCKETS},
    }  # fmt: skip


def job(group: int = 0, late_us: int = LATE_US, slow: int = 2, **changed) -> Iterator[dict]:
    """One data-parallel job: in some steps a rank comes late to the first bucket; -1: nobody."""
    now_us = BEGIN_US + 17 * group
    for step in range(STEPS):
        late = late_us if step in SLOW else 0
        now_us += STEP_US + late
        for bucket in range(BUCKETS):
            end_us = now_us + bucket * TRANSFER_US
            for rank in range(RANKS):
                waited = late if bucket == 0 and rank != slow else 0
                number = step * BUCKETS + bucket
                yield record(group, rank, number, TRANSFER_US + waited, end_us, **changed)


def written(folder: Path, lines: list[dict], name: str = "records.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def answered(*arguments: object):
    """Exit code, output, and errors of the command."""
    result = CliRunner().invoke(app, ["collectives", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def summary(*arguments: object) -> dict:
    return json.loads(answered(*arguments, "--json")[1])


def test_layout_steps_and_the_exact_lateness_of_the_late_rank_are_in_the_tables(tmp_path):
    path, out, late = written(tmp_path, [*job()]), tmp_path / "tables", tmp_path / "late.parquet"
    _, text, _ = answered(path, "--out", out, "--late", late)
    assert "job-0: 2 servers: node[0-1]" in text
    assert [answered(path, "--late", at)[0] for at in (late, path)] == [0, 1]
    table = pd.read_parquet(late)
    assert (table["transfer_ns"] == TRANSFER_US * 1000).all()
    slow = (table["number"] % BUCKETS == 0) & (table["number"] // BUCKETS).isin(list(SLOW))
    culprit = table["address"] == "node1/0"
    assert (table["late_ns"] == LATE_US * 1000 * (slow & culprit)).all()
    assert (table.loc[slow & ~culprit, "waited_ns"] == LATE_US * 1000).all()
    steps = pd.read_parquet(out / "steps.parquet")
    lengths = (steps["end_ns"] - steps["start_ns"]).groupby(steps["step"]).median()
    assert lengths.loc[list(SLOW)].eq((STEP_US + LATE_US) * 1000).all()
    finding = pd.read_parquet(out / "findings.parquet").iloc[0]
    assert finding[["first_step", "last_step", "culprit"]].tolist() == [6, 8, "node1/0"]


def test_a_process_that_is_late_is_found_under_what_slows_all(tmp_path):
    draws, lines = np.random.default_rng(5), [*job()]
    ahead = np.repeat(np.cumsum(draws.integers(0, 3 * LATE_US, STEPS)), len(lines) // STEPS)
    for line, later_us in zip(lines, ahead.tolist(), strict=True):
        line["metadata"]["dump_timestamp_us"] += later_us
    found = summary(written(tmp_path, lines))["findings"]
    assert [(one["culprit"], one["first_step"]) for one in found] == [("node1/0", 6)]


def test_a_restart_with_new_processes_is_the_same_job_and_goes_on_with_its_steps(tmp_path):
    again = [*job(group=1)]
    for line in again:
        line["metadata"]["dump_timestamp_us"] += 10**8
    found = summary(written(tmp_path, [*job(late_us=0), *again]))
    assert [one["steps"] for one in found["jobs"]] == [2 * STEPS]
    places = [(one["culprit"], one["first_step"] - STEPS) for one in found["findings"]]
    assert places == [("node1/0", SLOW[0])]


def test_transfers_that_are_longer_for_all_are_slow_and_name_nobody(tmp_path):
    (found,) = summary(written(tmp_path, [*job(slow=-1)]))["findings"]
    assert (found["symptom"], found["culprit_kind"]) == ("slow_transfers", "job")


def as_version_43(lines: list[dict]) -> list[dict]:
    """The same records after markers of dumps, one for each communicator and rank."""
    made = []
    for line in lines:
        stats = {"coll_records": 1, "coll_dropped_total": 2, "coll_dropped_since_last_dump": 0}
        made.append({**line, "dump_stats": stats})
        made.append({"coll_perf": made[-1].pop("coll_perf")})
    return made


def as_flat(lines: list[dict]) -> list[dict]:
    return [{**line["header"], **line["metadata"], "coll_perf": line["coll_perf"]}
            for line in lines]  # fmt: skip


def as_verbose(lines: list[dict]) -> list[dict]:
    made = []
    for line in lines:
        end_us = line["metadata"]["dump_timestamp_us"]
        events = [{"channel_id": 0, "kernel_start_ts": 0, "kernel_stop_ts": end_us}]
        fields = {**line["coll_perf"], "event_trace_ts": {"kernel_events": events}}
        late = {**line["metadata"], "dump_timestamp_us": end_us + 10**9}
        made.append({**line, "metadata": late, "coll_perf": fields})
    return made


@pytest.mark.parametrize("form", [as_version_43, as_flat, as_verbose])
def test_every_version_of_the_format_gives_the_same_diagnosis(tmp_path, form):
    lines = [*job()]
    plain = summary(written(tmp_path, lines))
    other = summary(written(tmp_path, form(lines), "other.jsonl"))
    assert [one["culprit"] for one in other["findings"]] == ["node1/0"]
    assert other["jobs"] == plain["jobs"]
    lost = any("ring buffers lost 8 records" in note for note in other["notes"])
    assert lost == (form is as_version_43)


@pytest.mark.parametrize(("every_us", "jitter_us", "words"), [
    (1_000_000, 0, "known to 1.00 s"), (30_000_000, 0, "known to 30.0 s"),
    (1_000_000, 7, "known to 1.00 s"), (0, 0, "unknown"),
])  # fmt: skip
def test_ends_are_known_to_the_time_between_dumps(tmp_path, every_us, jitter_us, words):
    lines = [*job()]
    for line in lines:  # a dump a step
        number = (line["metadata"]["dump_timestamp_us"] - BEGIN_US) // STEP_US
        dumped_us = BEGIN_US + number * every_us + number**2 % 5 * jitter_us
        line["metadata"]["dump_timestamp_us"] = dumped_us
    notes = summary(written(tmp_path, lines))["notes"]
    assert any(f"ends are {words}, so" in note for note in notes)


def test_compressed_files_and_folders_are_read(tmp_path):
    (folder := tmp_path / "records").mkdir()
    for rank in range(RANKS):
        lines = [json.dumps(one) + "\n" for one in job() if one["header"]["rank"] == rank]
        (folder / f"{rank}.log.gz").write_bytes(gzip.compress("".join(lines).encode()))
    assert summary(folder)["findings"] == summary(written(tmp_path, [*job()]))["findings"]


def test_a_table_is_read_with_the_names_of_its_columns(tmp_path):
    rows = [{**line["header"], **line["metadata"], **line["coll_perf"]} for line in job()]
    pd.DataFrame(rows).to_csv(tmp_path / "records.csv", index=False)
    names = "communicator=id,ranks=n_ranks,nodes=nnodes,host=hostname,process=pid,operation=coll,"
    names += "number=coll_sn,bytes=coll_msg_size_bytes,exec_us=coll_exec_time_us,"
    names += "end_us=dump_timestamp_us"
    found = summary(tmp_path / "records.csv", "--map", names)
    assert [one["culprit"] for one in found["findings"]] == ["node1/0"]


def test_prometheus_files_show_jobs_and_no_steps(tmp_path):
    labels = (
        'version="v5.1",slurm_job_id="7",node="node{node}",gpu="GPU{gpu}",comm_name="DP Group 0",'
        'n_nodes="2",nranks="4",collective="AllReduce",message_size="4-5MB",algo_proto="RING_LL"'
    )
    lines = ["# TYPE nccl_collective_exec_time_microseconds gauge"]
    for rank in range(RANKS):
        named = labels.format(node=rank // 2, gpu=rank % 2)
        lines.append(f"nccl_collective_exec_time_microseconds{{{named}}} {50 + rank}.5")
    path = tmp_path / "nccl.prom"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, text, errors = answered(path)
    assert code == 4
    assert "job-0: 2 servers: node[0-1]" in text
    assert "its steps are unknown" in errors


def test_two_jobs_in_one_file_are_two_jobs(tmp_path):
    lines = [*job(), *job(group=1, late_us=0)]
    path = written(tmp_path, lines)
    path.write_text(path.read_text() + '{"header": {"id": \n', encoding="utf-8")
    assert "set aside 1: lines that are no JSON" in answered(path)[2]
    found = summary(path)
    assert len(found["jobs"]) == 2
    assert len(found["findings"]) == 1
    (given := tmp_path / "jobs.csv").write_text("job,servers,begin,end\nx,node[0-1],,\n")
    assert len(summary(path, "--jobs", given)["jobs"]) == 1


def test_absent_ranks_lost_records_and_wrong_clocks_hide_no_late_rank(tmp_path):
    draws, lines = np.random.default_rng(3), [*job()]
    ahead = json.loads(json.dumps(lines))
    for line in ahead:
        line["metadata"]["dump_timestamp_us"] += 5_000_000 * (line["header"]["rank"] > 1)
    for note, kept in (
        ("1 rank of its communicators", [one for one in lines if one["header"]["rank"] != 3]),
        ("clocks of", ahead),
        ("", [line for line in lines if draws.random() > 0.02]),
    ):
        found = summary(written(tmp_path, kept))
        assert [one["culprit"] for one in found["findings"]] == ["node1/0"]
        assert note in "".join(found["notes"])


def test_timed_dumps_of_the_flight_recorder_name_the_rank_that_came_late(tmp_path):
    lines = [(line["header"]["rank"], line["coll_perf"], line["metadata"]) for line in job()]
    for rank in range(RANKS):
        calls = [
            call(1, own["coll_sn"], "all_reduce", state="completed", output_dtypes=["Float"],
                 output_sizes=[[own["coll_msg_size_bytes"] // 4]],
                 duration_ms=own["coll_exec_time_us"] / 1000,
                 time_created_ns=int(at["dump_timestamp_us"] - own["coll_exec_time_us"]) * 1000)
            for of, own, at in lines if of == rank
        ]  # fmt: skip
        content = pickle.dumps(dump(rank, {}, [*calls, call(1, 999, "all_reduce")]))
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(content)
    found = summary(tmp_path)
    assert [one["culprit"] for one in found["findings"]] == [f"{tmp_path.name}/2"]
    assert answered(tmp_path)[2].startswith(f"set aside {RANKS}: operations that are not completed")


def test_dumps_without_times_show_the_layout(tmp_path):
    text = json.dumps({"ranks": {str(rank): waiting(rank) for rank in range(RANKS)}})
    for group, kind in enumerate(("WORLD", "TENSOR", "TENSOR", "PIPELINE", "PIPELINE"), 1):
        text = text.replace(f'"desc": "group {group}"', f'"desc": "{kind}_MODEL_PARALLEL_GROUP"')
    path = tmp_path / "all.json"
    path.write_text(text, encoding="utf-8")
    (found,) = summary(path)["jobs"]
    assert [found["layout"][axis] for axis in ("dp", "pp", "tp")] == [1, 2, 2]


GOOD = json.dumps(record(0, 0, 0, 1.0, BEGIN_US))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", GOOD[:-9], "[]", "null", '{"coll_perf": {}}', '{"header": 3, "coll_perf": 4}',
        GOOD.replace("1.0", "1e999"), GOOD.replace("1.0", "-5.0"), GOOD.replace("1.0", '"x"'),
        GOOD.replace('"rank": 0', '"rank": 99999999999999999999'), "x" * (1 << 17), "\x00\x01",
        '{"header": {}, "metadata": {}, "dump_stats": {"coll_records": "many"}}',
    ],
)  # fmt: skip
def test_a_broken_file_is_one_clear_line(tmp_path, text):
    path = tmp_path / "broken.jsonl"
    path.write_text(text, encoding="utf-8")
    code, _, errors = answered(path)
    assert code == 1
    assert errors.startswith(f"error: {path}: no record of a collective")
    assert len(errors.splitlines()) <= 2


SCENARIO = """
cluster: {servers: 4, fabric: {kind: rail, leaf_ports: 8}}
jobs:
  - {name: a, model: llama-7b, dp: 4, pp: 2, tp: 4, micro_batches: 4, mfu: 0.5, steps: 12}
faults:
  - {kind: slow_gpu, job: a, rank: 5, factor: 0.7, from_step: 5, to_step: 9}
collectives: {}
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> ps.Simulation:
    path = tmp_path_factory.mktemp("simulated") / "slow.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return ps.simulate(path, out=path.parent / "run")


def test_a_pipeline_that_writes_messages_only_is_read(tmp_path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(SCENARIO.replace("dp: 4, pp: 2, tp: 4", "dp: 1, pp: 4, tp: 8"), "utf-8")
    run = ps.simulate(path, out=tmp_path / "run").folder
    found = summary(run / "collectives", "--topology", run / "topology.json")
    assert [one["steps"] for one in found["jobs"]] == [12]
    assert found["findings"][0]["culprit"] == "s0000"  # of the first stage, whose steps are longer
    assert found["findings"][0]["first_step"] == 5


def test_a_simulated_job_is_found_with_layout_steps_and_the_slow_server(simulated, tmp_path):
    run, out = simulated.folder, tmp_path / "tables"
    topology = run / "topology.json"
    _, text, _ = answered(run / "collectives", "--topology", topology, "--out", out)
    assert "job-0: 4 servers: s[0000-0003]" in text
    ranks = simulated.truth("ranks")
    assert set(pd.read_parquet(out / "jobs.parquet")["address"]) == set(ranks["address"])
    steps = pd.read_parquet(out / "steps.parquet")
    found = (steps["end_ns"] - steps["start_ns"]).groupby(steps["step"]).median()
    found = found.drop([5, 9])  # in which the end of a collective and that of a step move apart
    true = simulated.truth("steps").query("rank == 0").set_index("step")
    lengths = (true["end_ns"] - true["start_ns"]).loc[found.index]
    assert np.allclose(found, lengths, rtol=0.01)
    finding = pd.read_parquet(out / "findings.parquet").iloc[0]
    culprit = ranks.query("rank == 5").iloc[0]
    near = json.loads(finding["evidence"]).get("one_of", [])
    assert culprit["address"] in [finding["culprit"], *near]
    assert set(ranks.set_index("address").loc[near, "server"]) == {culprit["server"]}
