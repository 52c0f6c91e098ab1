"""SimAI workloads: as jobs, with closed forms for their times and bytes; and refused ones."""

from __future__ import annotations

import pytest

from prism_sim.importers.simai import SimAI
from prism_sim.toolkit import Cluster
from traces import sent, simai

CLUSTER = Cluster(servers=1)
B = CLUSTER.nic_gbps / 8  # bytes a nanosecond
L = 2 * 500  # server to leaf to server
MIB = 1 << 20
TRACE = {"kind": "simai", "file": "work.txt"}


@pytest.fixture
def workload(tmp_path):
    def write(*layers, **sizes):
        (tmp_path / "work.txt").write_text(simai(*layers, **sizes))

    return write


def step_ns(run):
    steps = run.truth("steps")
    (ns,) = set(steps["end_ns"] - steps["start_ns"])
    return ns


def test_a_reduction_of_gradients_takes_the_time_of_a_ring(workload, replayed):
    size = 64 * MIB
    workload(f"embedding 1000 NONE 0 2000 NONE 0 3000 ALLREDUCE {size} 100", ranks=4)
    expected = 6000 + 2 * 3 * (size / (4 * B) + L) + 100
    run = replayed(TRACE)
    assert step_ns(run) == pytest.approx(expected, abs=2)
    assert sent(run) == {(r, (r + 1) % 4, "dp"): 2 * 3 * size // 4 for r in range(4)}


@pytest.mark.parametrize(
    ("operation", "rounds"), [("ALLGATHER", 1), ("REDUCESCATTER", 1), ("ALLREDUCE", 2)]
)
def test_sizes_are_those_of_whole_buffers(workload, replayed, operation, rounds):
    """Each of n ranks moves (n - 1) / n of the size in a round, as in SimAI's flow model."""
    workload(f"x 0 NONE 0 0 NONE 0 0 {operation} {8 * MIB} 0", ranks=4)
    assert set(sent(replayed(TRACE)).values()) == {rounds * 3 * 2 * MIB}


def test_forward_and_input_gradient_block_and_weight_gradient_does_not(workload, replayed):
    """Two layers; the long reduction of the second one's weights hides the first one's compute."""
    size = 64 * MIB
    reduction = 2 * (size / (2 * B) + L)
    workload(
        "first 100000 NONE 0 200000 NONE 0 300000 NONE 0 0",
        f"second 100000 NONE 0 200000 NONE 0 300000 ALLREDUCE {size} 0",
        ranks=2,
    )
    expected = 200_000 + 500_000 + max(reduction, 500_000)
    assert step_ns(replayed(TRACE)) == pytest.approx(expected, abs=2)


def test_tensor_parallel_collectives_take_time_and_leave_no_trace(workload, replayed):
    """A forward and a backward all-reduce over NVLink, two ranks a server."""
    size = 64 * MIB
    link = CLUSTER.nvlink_gbps / 8
    each = 2 * (size / (2 * link) + CLUSTER.nvlink_latency_ns) + 50
    workload(f"x 1000 ALLREDUCE {size} 2000 ALLREDUCE {size} 3000 NONE 0 50", tp=2, ranks=4)
    run = replayed(TRACE)
    assert step_ns(run) == pytest.approx(6000 + 2 * each, abs=4)
    assert sent(run) == {}
    assert run.truth("ranks")["server"].tolist() == ["s0000", "s0000", "s0001", "s0001"]


def test_groups_are_laid_out_as_in_simai(workload, replayed):
    """Eight ranks, tp 2 and ep 2: pairs of neighbours, their counterparts, and the others."""
    workload(
        f"x 0 ALLTOALL_EP {MIB} 0 NONE 0 0 ALLREDUCE_DP_EP {MIB} 0",
        f"y 0 NONE 0 0 NONE 0 0 ALLREDUCE {MIB} 0",
        tp=2, ep=2, ranks=8,
    )  # fmt: skip
    run = replayed(TRACE)
    pairs = set(sent(run))
    assert {p[:2] for p in pairs if p[2] == "ep"} == {
        (0, 2), (2, 0), (1, 3), (3, 1), (4, 6), (6, 4), (5, 7), (7, 5),
    }  # fmt: skip
    of_rank_0 = {p[1] for p in pairs if p[2] == "dp" and p[0] == 0}
    assert of_rank_0 == {2, 4}  # next in the ring of all replicas, and in that of its experts
    table = run.truth("ranks")
    assert table["tp"].tolist() == [0, 1] * 4
    assert table["ep"].tolist() == [0, 0, 1, 1] * 2
    assert table["dp"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_empty_collectives_and_those_of_one_rank_are_left_out(workload, replayed):
    workload(
        "x 5 NONE 4096 0 REDUCESCATTER 0 0 ALLGATHER_DP_EP 0 100",
        "y 0 ALLREDUCE 4096 0 NONE 0 0 NONE 0 100",
        tp=1, ranks=2,
    )  # fmt: skip
    assert step_ns(replayed(TRACE)) == 5


def test_a_header_of_other_versions_is_read(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 checkpoints: 0 "
        "checkpoint_initiates: 0\n1\nlayer\t-1\t5\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t64\t100\n"
    )
    assert SimAI(file="old.txt", ranks=8).read(path).ranks == (0,) * 8


GOOD = "x 5 NONE 0 0 NONE 0 0 NONE 0 0"


@pytest.mark.parametrize(
    ("layers", "sizes", "expected"),
    [
        ([GOOD], {"pp": 4}, "work.txt:1: 4 pipeline stages, but the file does not assign"),
        ([GOOD], {"again": 2}, "work.txt:1: recomputed layers"),
        ([GOOD], {"ranks": 0}, "work.txt:1: the number of ranks is missing"),
        ([GOOD], {"ranks": 7, "tp": 2}, "7 ranks cannot be cut into groups of"),
        ([GOOD], {"ranks": 6, "ep": 4}, "ep 4 does not divide 6 tensor-parallel groups"),
        (["x 5 GATHER 8 0 NONE 0 0 NONE 0 0"], {}, "work.txt:3: the collective 'GATHER' cannot"),
        (["x 5 ALLREDUCE_PP 8 0 NONE 0 0 NONE 0 0"], {}, "collective 'ALLREDUCE_PP' cannot be"),
        (["x 5 ALLREDUCE many 0 NONE 0 0 NONE 0 0"], {}, "size of ALLREDUCE is 'many'"),
        (["x -5 NONE 0 0 NONE 0 0 NONE 0 0"], {}, "a compute time is '-5'"),
        (["x 9e18 NONE 0 0 NONE 0 0 NONE 0 0"], {}, "a compute time [ns] is 9000000000000000000"),
        (["x 0 ALLREDUCE 9e18 0 NONE 0 0 NONE 0 0"], {}, "the size of ALLREDUCE is 9000000"),
        (["x 5 NONE 0 0 NONE 0 0 NONE 0"], {}, "a layer of 11 words, where 12 are expected"),
        (["x 0 NONE 0 0 NONE 0 0 NONE 0 0"], {}, "nothing is computed and nothing sent"),
        ([], {}, "there are no layers"),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_expressed_is_refused(workload, refused, layers, sizes, expected):
    workload(*layers, **sizes)
    complaints = refused(TRACE)
    assert any(expected in complaint for complaint in complaints), complaints


def test_other_parallelisms_are_refused(tmp_path, refused):
    for policy in ("MICRO", "DATA", "HYBRID_DLRM", "nonsense"):
        (tmp_path / "work.txt").write_text(f"{policy}\n1\n")
        assert f"the parallelism {policy!r} cannot be expressed" in refused(TRACE)[0]


def test_files_of_something_else_are_refused(tmp_path, refused):
    for content in (b"", b"\n", b"\xff\xfe", b"PAR1", b"HYBRID_TRANSFORMER all_gpus: 4\n"):
        (tmp_path / "work.txt").write_bytes(content)
        assert refused(TRACE), content


def test_all_mistakes_are_reported_at_once(tmp_path, refused):
    text = simai("x 5 SUM 8 0 NONE 0 0 NONE 0 0", "y 5 NONE", pp=2).replace("\n2\n", "\n3\n")
    (tmp_path / "work.txt").write_text(text)
    assert [complaint.partition(": ")[0] for complaint in refused(TRACE)] == [
        "work.txt:1", "work.txt:2", "work.txt:3", "work.txt:4",
    ]  # fmt: skip
