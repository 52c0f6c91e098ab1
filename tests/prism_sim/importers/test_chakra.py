"""Chakra traces: as jobs, with closed forms for their times and bytes; and refused ones."""

from __future__ import annotations

import gzip
import sys

import pytest

from prism_common.errors import UserError
from prism_sim.importers.chakra import Chakra
from prism_sim.importers.chakra_files import node_messages, nodes_of
from prism_sim.toolkit import Cluster, Scenario, load_scenario
from traces import as_json, as_messages, coll, comp, node, recv, send, sent, write_chakra

B = Cluster(servers=1).nic_gbps / 8  # bytes a nanosecond
L = 2 * 500  # server to leaf to server, in a rail-optimised fabric of one leaf a rail
MIB = 1 << 20


def steps_of(run):
    steps = run.truth("steps")
    steps["ns"] = steps["end_ns"] - steps["start_ns"]
    return steps


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_an_all_reduce_takes_the_time_of_a_ring(tmp_path, replayed, ranks):
    size = 64 * MIB
    write_chakra(tmp_path, [[coll(0, "all_reduce", size)] for _ in range(ranks)])
    run = replayed({"kind": "chakra", "file": "trace"})
    expected = 2 * (ranks - 1) * (size / (ranks * B) + L)
    assert steps_of(run)["ns"].to_numpy() == pytest.approx(expected, abs=2)
    each = 2 * (ranks - 1) * size // ranks
    assert sent(run) == {(r, (r + 1) % ranks, "dp"): each for r in range(ranks)}


@pytest.mark.parametrize(
    ("operation", "bytes_each"),
    [
        ("all_gather", 3 * 8 * MIB),  # each rank's 8 MiB pass three hops
        ("reduce_scatter", 3 * 2 * MIB),
        ("all_reduce", 6 * 2 * MIB),
        ("all_to_all", 2 * MIB),  # to each of three others
    ],
)
def test_a_collective_moves_its_bytes(tmp_path, replayed, operation, bytes_each):
    """Four ranks with buffers of 8 MiB; sizes as ASTRA-sim means them."""
    write_chakra(tmp_path, [[coll(0, operation, 8 * MIB)] for _ in range(4)])
    run = replayed({"kind": "chakra", "file": "trace"})
    assert set(sent(run).values()) == {bytes_each}
    kind = "ep" if operation == "all_to_all" else "dp"
    assert {key[2] for key in sent(run)} == {kind}
    assert len(sent(run)) == (12 if operation == "all_to_all" else 4)


def test_a_broadcast_uses_a_chain(tmp_path, replayed):
    write_chakra(tmp_path, [[coll(0, "broadcast", 8 * MIB)] for _ in range(3)])
    run = replayed({"kind": "chakra", "file": "trace"})
    assert sent(run) == {(0, 1, "dp"): 8 * MIB, (1, 2, "dp"): 8 * MIB}


def test_a_pipeline_of_two_is_a_timeline(tmp_path, replayed):
    """Forward 100 us, a message, forward and backward, a message back, backward 200 us."""
    size = 5 * MIB
    hop = round(size / B) + L
    first = [comp(0, 100), send(1, size, 1, 0), recv(2, size, 1), comp(3, 200, 2, 0)]
    second = [recv(0, size, 0), comp(1, 100, 0), comp(2, 200, 1), send(3, size, 0, 2)]
    write_chakra(tmp_path, [first, second])
    run = replayed({"kind": "chakra", "file": "trace"})
    spans = run.truth("spans")
    origin = spans["start_ns"].min()
    of = {rank: spans[spans["rank"] == rank].sort_values("start_ns") for rank in (0, 1)}
    log = {
        rank: [(kind, a - origin, b - origin) for kind, a, b in
               zip(own["kind"], own["start_ns"], own["end_ns"], strict=True)]
        for rank, own in of.items()
    }  # fmt: skip
    there, done = 100_000 + hop, 400_000 + hop
    assert log[0] == [
        ("compute", 0, 100_000), ("send_act", 100_000, there),
        ("recv_grad", done, done + hop), ("compute", done + hop, done + hop + 200_000),
    ]  # fmt: skip
    assert log[1] == [
        ("recv_act", 100_000, there), ("compute", there, there + 100_000),
        ("compute", there + 100_000, done), ("send_grad", done, done + hop),
    ]  # fmt: skip
    assert run.truth("ranks")["pp"].tolist() == [0, 1]
    assert sent(run) == {(0, 1, "pp"): size, (1, 0, "pp"): size}


def test_a_gpu_does_one_thing_at_a_time_and_its_host_another(tmp_path, replayed):
    nodes = [comp(0, 10), comp(1, 20), comp(2, 25, is_cpu_op=True), comp(3, 5, 0, 1, 2)]
    write_chakra(tmp_path, [nodes])
    run = replayed({"kind": "chakra", "file": "trace"})
    spans = run.truth("spans").sort_values(["start_ns", "end_ns"])
    begin = spans["start_ns"].min()
    log = [(k, a - begin, b - begin) for k, a, b in
           zip(spans["kind"], spans["start_ns"], spans["end_ns"], strict=True)]  # fmt: skip
    assert log == [
        ("compute", 0, 10_000), ("host", 0, 25_000), ("compute", 10_000, 30_000),
        ("compute", 30_000, 35_000),
    ]  # fmt: skip


def test_a_message_waits_for_a_late_receiver(tmp_path, replayed):
    write_chakra(tmp_path, [[send(0, MIB, 1)], [comp(0, 1000), recv(1, MIB, 0, 0), comp(2, 5, 1)]])
    run = replayed({"kind": "chakra", "file": "trace"}, start_s=0.25)
    steps = steps_of(run).set_index("rank")
    epoch_ns = run.read_json(run.manifest)["scenario"]["epoch_ns"]
    assert steps["start_ns"].tolist() == [epoch_ns + 250_000_000] * 2
    assert steps["ns"].tolist() == [round(MIB / B) + L, 1_005_000]


def test_computation_overlaps_with_a_reduction_without_a_waiting_rank(tmp_path, replayed):
    nodes = [coll(0, "all_reduce", 64 * MIB), comp(1, 1000), comp(2, 1000, 1)]
    write_chakra(tmp_path, [nodes, nodes])
    run = replayed({"kind": "chakra", "file": "trace"})
    reduction = 2 * (64 * MIB / (2 * B) + L)
    assert steps_of(run)["ns"].to_numpy() == pytest.approx(max(reduction, 2e6), abs=2)


def test_iterations_and_marked_steps_are_steps(tmp_path, replayed):
    nodes = [
        node(0, "METADATA", name="ProfilerStep#7"), comp(1, 10, 0),
        node(2, "METADATA", (1,), name="ProfilerStep#8"), comp(3, 30, 2),
    ]  # fmt: skip
    write_chakra(tmp_path, [nodes])
    run = replayed({"kind": "chakra", "file": "trace"}, iterations=2)
    steps = steps_of(run)
    assert steps["step"].tolist() == [0, 1, 2, 3]
    assert steps["ns"].tolist() == [10_000, 30_000] * 2
    assert (steps["start_ns"].to_numpy()[1:] == steps["end_ns"].to_numpy()[:-1]).all()


def test_groups_and_their_kinds_place_the_ranks(tmp_path, replayed):
    """Two tensor-parallel pairs of neighbours, and replicas of each rank."""
    ranks = [
        [coll(0, "all_reduce", MIB, pg_name=f"t{r // 2}"),
         coll(1, "all_reduce", MIB, 0, pg_name=f"d{r % 2}")]
        for r in range(4)
    ]  # fmt: skip
    write_chakra(tmp_path, ranks)
    groups = {"t0": [0, 1], "t1": [2, 3], "d0": [0, 2], "d1": [1, 3]}
    trace = {"kind": "chakra", "file": "trace", "groups": groups,
             "kinds": {"t0": "tp", "t1": "tp"}}  # fmt: skip
    run = replayed(trace)
    table = run.truth("ranks")
    assert table["tp"].tolist() == [0, 1, 0, 1]
    assert table["dp"].tolist() == [0, 0, 1, 1]
    assert table["server"].tolist() == ["s0000", "s0000", "s0001", "s0001"]
    assert set(sent(run)) == {(0, 2, "dp"), (2, 0, "dp"), (1, 3, "dp"), (3, 1, "dp")}


def test_any_name_of_a_process_group_will_do(tmp_path, replayed):
    name = "pipeline stage #1 after step"
    write_chakra(tmp_path, [[coll(0, "all_reduce", MIB, pg_name=name)] for _ in range(2)])
    trace = {"kind": "chakra", "file": "trace", "groups": {name: [0, 1]}, "kinds": {name: "cp"}}
    assert set(sent(replayed(trace))) == {(0, 1, "cp"), (1, 0, "cp")}


def test_process_groups_are_read_from_the_metadata_of_pytorch(tmp_path, replayed):
    nodes = [node(0, "METADATA", values=described(0, 2)),
             coll(1, "all_reduce", MIB, pg_name="3")]  # fmt: skip
    write_chakra(tmp_path, [nodes, [comp(0, 1)], nodes])
    assert set(sent(replayed({"kind": "chakra", "file": "trace"}))) == {(0, 2, "dp"), (2, 0, "dp")}


def described(*ranks):
    """The record of PyTorch's observer for a process group with the name 3."""
    return f'[\'[{{"pg_name": "3", "ranks": {list(ranks)}}}]\']'


def test_ranks_that_disagree_about_a_group_are_refused(tmp_path, refused):
    write_chakra(tmp_path, [
        [node(0, "METADATA", values=described(0, 1)), coll(1, "all_reduce", 5, pg_name="3")],
        [node(0, "METADATA", values=described(1, 2)), coll(1, "all_reduce", 5, pg_name="3")],
        [node(0, "METADATA", values=described(1, 2)), coll(1, "all_reduce", 5, pg_name="3")],
    ])  # fmt: skip
    assert "ranks disagree about the members of process group '3'" in refused(ONE)[0]


def test_metadata_that_make_no_sense_are_no_groups(tmp_path, refused):
    for values in ("pg_name", '[{"pg_name": 3}]', '[{"pg_name": "3", "ranks": [0, "x"]}]'):
        nodes = [node(0, "METADATA", values=values), coll(1, "all_reduce", 5, pg_name="3")]
        write_chakra(tmp_path, [nodes, nodes])
        assert "process group '3' has unknown members" in refused(ONE)[0]


def test_the_given_rate_decides_the_time_of_operations(tmp_path, replayed, refused):
    write_chakra(tmp_path, [[comp(0, 0, num_ops=3_000_000_000)]])
    run = replayed({"kind": "chakra", "file": "trace", "tflops": 100})
    assert steps_of(run)["ns"].tolist() == [30_000]
    (expected,) = refused({"kind": "chakra", "file": "trace"})
    assert "3000000000 operations, but no duration" in expected
    assert "tflops" in expected


@pytest.mark.parametrize("suffix", [".et", ".et.gz", ".json", ".json.gz"])
def test_all_forms_of_a_trace_give_the_same_job(tmp_path, suffix):
    nodes = [comp(0, 7, name="größer"), send(1, 5, 1, 0, comm_tag=3),
             coll(2, "all_reduce", 9, pg_name="x", involved_dim=[True, True]),
             comp(3, 1, is_cpu_op=True)]  # fmt: skip
    raw = as_messages(nodes) if ".et" in suffix else as_json(nodes).encode()
    path = tmp_path / f"t.0{suffix}"
    path.write_bytes(gzip.compress(raw) if suffix.endswith(".gz") else raw)
    plain = tmp_path / "plain.0.json"
    plain.write_text(as_json(nodes))
    assert nodes_of(path) == nodes_of(plain)
    assert nodes_of(path)[0].name == "größer"


def test_a_run_folder_needs_the_trace_no_more(tmp_path, replayed):
    write_chakra(tmp_path, [[comp(0, 5), coll(1, "all_reduce", MIB, 0)] for _ in range(2)])
    run = replayed({"kind": "chakra", "file": "trace"})
    resolved = run.read_json(run.manifest)["scenario"]
    for file in tmp_path.glob("trace.*"):
        file.unlink()
    again = Scenario.model_validate(resolved)
    assert again.model_dump(mode="json") == resolved
    assert again.jobs[0].ranks == 2


def test_without_protobuf_a_message_explains_the_installation(tmp_path, monkeypatch):
    (tmp_path / "t.0.et").write_bytes(as_messages([comp(0, 1)]))
    node_messages.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(UserError, match=r"pip install 'prism-sim\[chakra\]'"):
        nodes_of(tmp_path / "t.0.et")


ONE = {"kind": "chakra", "file": "trace"}


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([[node(0, "COMM_COLL", comm_type=1, comm_size=5)]] * 2, "collective REDUCE is not"),
        ([[node(0, "COMM_COLL", comm_type=77, comm_size=5)]] * 2, "collective number 77 is not"),
        ([[node(0, "COMM_COLL", comm_size=5)]] * 2, "comm_type is missing"),
        ([[node(0, "COMM_COLL", comm_type=0)]] * 2, "comm_size is missing"),
        ([[coll(0, "all_reduce", 0)]] * 2, "comm_size is 0"),
        ([[coll(0, "all_reduce", 1 << 60)]] * 2, "comm_size is 1152921504606846976; it must"),
        ([[comp(0, -1)]], "its duration [ns] is -1000"),
        ([[comp(0, 1 << 50)]], "its duration [ns] is"),
        ([[coll(0, "all_reduce", 5, pg_name="9")]] * 2, "process group '9' has unknown members"),
        ([[coll(0, "all_reduce", 5, involved_dim=[True, False])]] * 2, "involved_dim names"),
        ([[coll(0, "all_reduce", 5)], [comp(0, 1)]], "rank 1 takes part in 0 of 1 collectives"),
        ([[coll(0, "all_reduce", 5)], [coll(0, "all_reduce", 6)]], "all_reduce of 6 bytes, where"),
        ([[send(0, 5, 1)], [comp(0, 1)]], "no recv matches this message from rank 0 to 1, tag 0"),
        ([[recv(0, 5, 1)], [comp(0, 1)]], "no send matches this message from rank 1 to 0, tag 0"),
        ([[send(0, 5, 1)], [recv(0, 6, 0)]], "5 bytes are sent, but 6 are expected"),
        ([[send(0, 5, 1, comm_tag=1)], [recv(0, 5, 0, comm_tag=2)]], "both ends need the same tag"),
        ([[node(0, "COMM_SEND", comm_size=5)]], "comm_dst is missing"),
        ([[send(0, 5, 0)]], "rank 0 sends a message to itself"),
        ([[send(0, 5, 7)]], "no recv matches"),
        ([[comp(0, 1, 1), comp(1, 1, 0)]], "nodes 0, 1 depend on each other in a cycle"),
        ([[comp(0, 1, 8)]], "it depends on node 8, which does not exist"),
        ([[comp(0, 1), comp(0, 2)]], "1 node ids are not unique"),
        ([[node(0, "MEM_LOAD")]], "nodes of type MEM_LOAD_NODE are not modelled"),
        ([[node(0, "STORAGE")]], "nodes of type STORAGE_NODE are not modelled"),
        ([[recv(0, 5, 1), send(1, 5, 1, 0)], [recv(0, 5, 0), send(1, 5, 0, 0)]], "can never start"),
        ([[coll(0, "all_reduce", 5), send(1, 5, 1, 0)],
          [recv(0, 5, 0), coll(1, "all_reduce", 5, 0)]], "can never start: it waits for itself"),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_expressed_is_refused(tmp_path, refused, ranks, expected):
    write_chakra(tmp_path, ranks)
    complaints = refused(ONE)
    assert any(expected in complaint for complaint in complaints), complaints
    assert all("node" in complaint or "trace.0.json" in complaint for complaint in complaints)


def test_all_mistakes_are_reported_at_once_with_their_places(tmp_path, refused):
    write_chakra(tmp_path, [
        [node(4, "MEM_STORE", name="spill"), node(5, "COMM_COLL", comm_type=3, comm_size=1)],
        [node(6, "COMM_SEND", comm_dst=0)],
    ])  # fmt: skip
    complaints = [c.partition(" (remove")[0].partition(" (known")[0] for c in refused(ONE)]
    assert complaints == [
        "trace.0.json: node 4 (spill): nodes of type MEM_STORE_NODE are not modelled",
        "trace.0.json: node 5 (comm_coll 5): collective GATHER is not modelled",
        "trace.1.json: node 6 (comm_send 6): comm_size is missing ()",
    ]  # fmt: skip


def test_files_of_every_rank_must_be_there(tmp_path, refused):
    (expected,) = refused(ONE)
    assert "no trace is called 'trace'" in expected
    for rank in (0, 3):
        (tmp_path / f"trace.{rank}.json").write_text(as_json([comp(0, 1)]))
    (expected,) = refused(ONE)
    assert "the files of ranks 1 are missing; 2 others exist" in expected


def test_a_file_of_something_else_is_refused(tmp_path, refused):
    for content in (b"", b"name: world\ncluster: {}\n", b"\x89PNG\r\n\x1a\n" * 9, b"{]", b"PAR1"):
        (tmp_path / "trace.0.et").write_bytes(content)
        assert refused(ONE), content


def test_a_file_of_any_rank_names_the_trace(tmp_path):
    write_chakra(tmp_path, [[comp(0, 5)], [comp(0, 5)]])
    assert Chakra(file="trace.1.json").read(tmp_path / "trace.1.json").ranks == (0, 1)


def test_an_unknown_group_in_kinds_gets_a_hint(tmp_path, refused):
    write_chakra(tmp_path, [[coll(0, "all_reduce", 5, pg_name="stage0")]] * 2)
    expected = refused({**ONE, "groups": {"stage0": [0, 1]}, "kinds": {"stage1": "dp"}})
    assert "did you mean stage0?" in expected[0]
    expected = refused({**ONE, "groups": {"stage0": [0, 0, 5]}})
    assert "process group 'stage0' has ranks [0, 0, 5]; the trace has 2" in expected[0]


def test_other_words_of_the_scenario_are_still_checked(tmp_path, refused):
    write_chakra(tmp_path, [[comp(0, 5)]])
    assert "unknown key 'mfu' in jobs.0" in refused(ONE, mfu=0.4)[0]
    assert (
        "unknown kind 'kineto' (known here: chakra, simai)" in refused({**ONE, "kind": "kineto"})[0]
    )
    assert "needs the key 'kind'" in refused({"file": "trace"})[0]
    write_chakra(tmp_path, [[comp(0, 5)] for _ in range(40)])
    assert "the trace's 40 ranks of the cluster's 32" in refused(ONE)[0]


def test_a_fault_affects_a_job_that_follows_a_trace(tmp_path):
    write_chakra(tmp_path, [[comp(0, 100)], [comp(0, 100)]])
    path = tmp_path / "w.yaml"
    path.write_text(
        "cluster: {servers: 4}\n"
        "jobs: [{name: a, trace: {kind: chakra, file: trace}, iterations: 4}]\n"
        "faults: [{kind: slow_gpu, job: a, rank: 1, factor: 0.5, from_step: 1, to_step: 3}]\n"
    )
    from prism_sim.toolkit import Run, simulate

    run = Run(tmp_path / "run")
    simulate(load_scenario(path), run)
    steps = steps_of(run)
    assert steps.loc[steps["rank"] == 0, "ns"].tolist() == [100_000] * 4
    assert steps.loc[steps["rank"] == 1, "ns"].tolist() == [100_000, 200_000, 200_000, 100_000]
    assert len(run.truth("faults")) == 1
