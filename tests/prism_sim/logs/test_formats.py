"""Logs of every kind and format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from log_corpus import Corpus, corpus
from prism_sim.logs.config import Logs
from prism_sim.logs.drawn import drawn_job
from prism_sim.logs.failures import FAILURES
from prism_sim.logs.population import Fate
from prism_sim.toolkit import Cluster, Draws

SEEDS = range(4)
CLUSTER = Cluster(servers=6, gpus_per_server=4, nics_per_server=4)
WITHOUT_LINES = {"slow_gpu", "process_stopped"}
"""Kinds that nothing states: iterations are slow, or one rank is silent."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_kind_ends_its_job_and_states_its_cause(name: str) -> None:
    stated = 0
    for seed in SEEDS:
        fate = Fate(0, 0, "any", FAILURES[name], 0)
        made = drawn_job(fate, Logs(max_nodes=4), CLUSTER, Draws(seed), 10**18, None)
        scene = made.scene
        assert scene is not None
        assert {*scene.ended_ns} == {*range(len(made.job.nodes))}, "a node still runs"
        assert {*scene.gone_ns} == {*range(made.job.ranks)} or scene.iteration is None
        assert scene.ending.state != "COMPLETED"
        lines = scene.printed
        assert min(line.time_ns for line in lines) >= scene.when_ns - 10**7
        assert max(line.time_ns for line in lines) <= scene.end_ns + 5 * 10**9
        stated += any(line.role == "indicator" for line in lines)
    assert (stated == 0) == (name in WITHOUT_LINES)


STAMP = r"\d\d:\d\d:\d\d"
FORMS = {
    "torchrun 2.6": rf"^(\d+: )?[WE]\d{{4}} {STAMP}\.\d{{6}} \d+ site-packages/torch/distributed/"
    r"elastic/multiprocessing/api\.py:\d+\] (Sending process \d+ closing signal SIGTERM|failed "
    r"\(exitcode: -?\d+\) local_rank: \d+ \(pid: \d+\) of binary: \S+)$",
    "torchrun 2.2": rf"^(\d+: )?\[\d{{4}}-\d\d-\d\d {STAMP},\d{{3}}\] torch\.distributed\.elastic\."
    r"multiprocessing\.api: \[(WARNING|ERROR)\] (Sending|failed)",
    "summary": r"Root Cause \(first observed failure\):\n(\d+: )?\[0\]:\n(\d+: )?  time      : "
    rf"\d{{4}}-\d\d-\d\d_{STAMP}\n(\d+: )?  host      : s\d+\n(\d+: )?  rank      : \d+ "
    r"\(local_rank: \d+\)\n(\d+: )?  exitcode  : -?\d+ \(pid: \d+\)",
    "watchdog 2.6": rf"\[rank(\d+)\]:\[E\d{{3,4}} {STAMP}\.\d{{9}} ProcessGroupNCCL\.cpp:\d+\] "
    r"\[Rank \1\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=\d+, "
    r"OpType=[A-Z]+, "
    r"NumelIn=\d+, NumelOut=\d+, Timeout\(ms\)=\d+\) ran for \d+ milliseconds before timing out\.$",
    "watchdog 2.2": r"\[rank(\d+)\]:\[E ProcessGroupNCCL\.cpp:523\] \[Rank \1\] Watchdog caught",
    "status": r"\[PG ID 0 PG GUID 0\(default_pg\) Rank \d+\]  failure detected by watchdog at work "
    r"sequence id: \d+ PG status: last enqueued work: \d+, last completed work: \d+$",
    "dump": r"Received a dump signal due to a collective timeout from  rank \d+ and we will try "
    r"our best to dump the debug info\. Last enqueued NCCL work: \d+, last completed NCCL "
    r"work: \d+\.",
    "NCCL": r"(s\d+):\d+:\d+ \[\d\] NCCL INFO comm 0x[0-9a-f]+ rank \d+ nRanks \d+ nNodes \d+ "
    r"localRanks \d+ localRank \d+",
    "Megatron 0.12": rf" \[\d{{4}}-\d\d-\d\d {STAMP}\.\d{{6}}\] iteration [ \d]{{8}}/[ \d]{{8}} \| "
    r"consumed samples: [ \d]{12} \| elapsed time per iteration \(ms\): \d+\.\d \| throughput per "
    r"GPU \(TFLOP/s/GPU\): \d+\.\d \| learning rate: \d\.\d{6}E[+-]\d\d \| global batch "
    r"size: [ \d]{5} "
    r"\| lm loss: \d\.\d{6}E[+-]\d\d \| loss scale: 1\.0 \| grad norm: \d\.\d{3} \| number "
    r"of skipped "
    r"iterations:   0 \| number of nan iterations:   0 \|$",
    "DeepSpeed": rf"\[\d{{4}}-\d\d-\d\d {STAMP},\d{{3}}\] \[INFO\] \[logging\.py:96:log_dist\] "
    r"\[Rank 0\] step=\d+, skipped=0, lr=\[",
    "Slurm": r"^slurmstepd: error: \*\*\* STEP \d+\.0 ON s\d+ CANCELLED AT "
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d( DUE TO [A-Z ,]+)? \*\*\*$",
    "srun": r"^srun: error: s\d+: task \d+: (Exited with exit code 1|Terminated|Killed)$",
    "Xid": r"^\[ *\d+\.\d{6}\] NVRM: Xid \(PCI:0000:[0-9a-f]{2}:00\): \d+, (pid=\d+, "
    r"name=python3, )?\w",
    "OOM": r"Memory cgroup out of memory: Killed process \d+ \(python3\) total-vm:\d+kB, "
    r"anon-rss:\d+kB, file-rss:\d+kB, shmem-rss:\d+kB, UID:\d+ pgtables:\d+kB oom_score_adj:0$",
}
KINDS = (
    "gpu_lost, hbm_error, gpu_hang, transport_stall, host_out_of_memory, missing_file, nic_down, "
    "slow_gpu"
)
RETRIES = r"NET/IB: Got completion from peer [\d.]+<\d+> with status="
EXAM = {
    "warning": rf"^\S*\[\d{{4}}-\d\d-\d\d {STAMP}\] s\d+:\d+:\d+ \[\d\] transport/net_ib\.cc:\d+ "
    rf"\(ncclIbTest\) NCCL WARN {RETRIES}IBV_WC_RETRY_EXC_ERR\(12\) opcode=IBV_WC_SEND\(0\)",
    "journal": rf"^[A-Z][a-z]{{2}} [ \d]\d {STAMP} s\d+ kernel: mlx5_core .* Link down$",
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Everything that several kinds of failures print."""
    made = corpus(
        tmp_path_factory.mktemp("forms"), 40, f"kinds: [{KINDS}], successes: 0, users: 12"
    )
    return "\n".join(made.whole(job["job"]) for job in made.jobs)


@pytest.mark.parametrize("form", FORMS)
def test_tools_print_their_forms(text: str, form: str) -> None:
    assert re.search(FORMS[form], text, re.MULTILINE)


def test_held_out_versions_print_other_forms(tmp_path: Path) -> None:
    made = corpus(tmp_path, 12, "population: exam, kinds: [nic_down], users: 9")
    versions = "".join(made.truth("jobs")["versions"])
    assert '"nccl": "2.28"' in versions
    whole = "\n".join(made.whole(job["job"]) for job in made.jobs)
    for form in EXAM.values():
        assert re.search(form, whole, re.MULTILINE)


def test_only_the_last_rank_prints_megatron_iterations(drawn: Corpus) -> None:
    jobs = drawn.truth("jobs")
    for row in jobs[(jobs["framework"] == "megatron") & (jobs["layout"] == "rank")].to_dict(
        "records"
    ):
        files = [f for f in drawn.files(row["job"]) if "| lm loss:" in drawn.text(f)]
        nodes = next(job["nodes"] for job in drawn.jobs if job["job"] == row["job"])
        last = f"{row['job']}/{nodes[-1]}/attempt_0/{row['gpus_per_node'] - 1}/stdout.log.gz"
        assert files in ([], [last])


def test_ranks_that_wait_are_ahead_of_the_one_that_hangs(tmp_path: Path) -> None:
    """The lowest number names the culprit, where the version of PyTorch prints numbers."""
    made = corpus(tmp_path, 8, "kinds: [gpu_hang], layout: job, successes: 0")
    checked = 0
    for row in made.truth("failures").to_dict("records"):
        whole = made.whole(row["job"])
        waiting = re.findall(r"last enqueued work: (\d+), last completed work: (\d+)", whole)
        behind = re.findall(
            r"Rank (\d+)\] Received a dump signal .* Last enqueued NCCL work: (\d+), last "
            r"completed NCCL work: (\d+)",
            whole,
        )
        if behind:
            checked += 1
            ((rank, enqueued, completed),) = behind
            assert int(rank) == row["rank"]
            assert int(completed) < min(int(number) for _, number in waiting)
            assert int(enqueued) < min(int(number) for number, _ in waiting)
    assert checked
