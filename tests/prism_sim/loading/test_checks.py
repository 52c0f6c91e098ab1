"""Well-formed scenarios that make no sense are refused, each breach at its line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from prism_sim.toolkit import Scenario, load_scenario

Complaints = Callable[..., list[tuple[int | str, str]]]

WORLD = """\
cluster:
  servers: 2
  gpus_per_server: 8
  nics_per_server: 4
  fabric: {kind: rail, leaf_ports: 8, spines: 2}
jobs:
  - {name: alpha, model: llama-7b, dp: 2, pp: 2, tp: 2, micro_batches: 4, steps: 10}
  - {name: beta, model: llama-7b, dp: 4, micro_batches: 4, steps: 10}
"""


def _loaded(text: str, tmp_path: Path) -> Scenario:
    path = tmp_path / "world.yaml"
    path.write_text(text)
    return load_scenario(path)


def _job(**values: object) -> str:
    """A line with one more job, by default of four GPUs."""
    fields = {"name": "gamma", "model": "llama-7b", "dp": 4, "micro_batches": 4, "steps": 10}
    return f"  - {{{', '.join(f'{k}: {v}' for k, v in (fields | values).items())}}}\n"


def test_the_run_of_these_tests_is_valid(tmp_path: Path) -> None:
    assert [job.name for job in _loaded(WORLD + _job(), tmp_path).jobs] == [
        "alpha",
        "beta",
        "gamma",
    ]


@pytest.mark.parametrize(
    ("before", "after", "line", "complaint"),
    [
        ("nics_per_server: 4", "nics_per_server: 3", 4, "3 NICs cannot be shared evenly by 8 GPUs"),
        ("nics_per_server: 4", "nics_per_server: 16", 4, "16 NICs cannot be shared evenly by 8"),
        ("kind: rail, leaf_ports: 8", "kind: tor, leaf_ports: 3", 5, "cannot take the 4 NICs"),
        ("leaf_ports: 8", "leaf_ports: 8, planes: 2", 1, "fabric.planes is 2 and nic_ports is 1"),
        ("nics_per_server: 4", "nics_per_server: 4\n  nic_ports: 3\n  nvlink_domain: 12", 6,
         "an NVLink domain of 12 GPUs is not made of servers of 8"),
        ("kind: rail, leaf_ports: 8", "kind: rail_only, leaf_ports: 1", 5,
         "a rail of 2 NICs, one of each domain, does not fit on a leaf of 1 ports"),
        ("kind: rail, leaf_ports: 8, spines: 2}",
         "kind: rail_only, leaf_ports: 8}\n  nvlink_domain: 24", 2,
         "2 servers are not whole domains of 3"),
        ("spines: 2", "spines: 2, uplinks: 5", 5, "5 uplinks cannot be shared evenly by 2 spines"),
        ("pp: 2", "pp: 3", 7, "32 layers of llama-7b cannot be cut into 3 equal stages"),
        ("tp: 2", "tp: 12", 7, "tp 12 of job alpha is not a multiple of the 8 GPUs of a server"),
        ("tp: 2", "tp: 3", 7, "tp 3 of job alpha does not divide the 8 GPUs of a server"),
        ("steps: 10}\n  - {name: b", "steps: 10, schedule: 1f2b}\n  - {name: b", 7,
         "schedule has the unknown kind '1f2b' (did you mean 1f1b?)"),
        ("name: beta", "name: alpha", 8, "two jobs are called 'alpha'"),
        ("name: beta", "name: a/b", 8, "the name 'a/b' is not safe for a file"),
        ("name: beta", "name: ..", 8, "the name '..' is not safe for a file"),
        ("name: beta", "name: 'a|b'", 8, "the name 'a|b' is not safe for a file"),
        ("dp: 4", "dp: 9", 8, "job beta needs 9 free groups of 1 GPUs, 8 are left"),
        ("dp: 4", "dp: 4, all_reduce: tree, library: {}", 8, "only rings, not all_reduce: tree"),
        ("dp: 4", "dp: 2, placement: {servers: [s0002, s1]}", 8, "there is no server 's0002'"),
        ("dp: 4", "dp: 4, placement: {servers: [s0001, s0001]}", 8, "s0001 is given twice"),
        ("dp: 4", "dp: 4, placement: {servers: [s0000]}", 8, "needs 4 free groups of 1 GPUs, 0"),
        ("dp: 4", "dp: 4, after: gamma", 8, "comes after gamma, and no job above has that name"),
        ("dp: 4", "dp: 9, after: alpha", 8, "comes after alpha, and does not start later"),
    ],
)  # fmt: skip
def test_impossible_scenarios_are_refused(
    complaints: Complaints, before: str, after: str, line: int, complaint: str
) -> None:
    assert before in WORLD
    found = complaints(WORLD.replace(before, after, 1))
    assert (line, True) in [(at, complaint in what) for at, what in found]
    assert {at for at, _ in found} == {line}


def test_model_sizes_must_divide(complaints: Complaints) -> None:
    sizes = "{layers: 4, hidden: 100, heads: 8, kv_heads: 3, vocab: 9, sequence_length: 5}"
    found = complaints(WORLD + _job(model=sizes, tp=1))
    assert [what.split(" (")[0] for _, what in found] == [
        "8 heads do not divide a width of 100",
        "3 key and value heads do not divide 8 heads",
    ]
    tall = "{layers: 4, hidden: 96, heads: 3, vocab: 9, sequence_length: 5}"
    ((line, what),) = complaints(WORLD + _job(model=tall, tp=2, dp=1))
    assert (line, "3 heads of custom cannot be cut into 2 equal parts" in what) == (9, True)


def test_gpus_left_by_other_jobs_count_in_whole_groups(
    complaints: Complaints, tmp_path: Path
) -> None:
    """alpha takes s0000, beta half of s0001: room for four single GPUs, or one group of four."""
    assert len(_loaded(WORLD + _job(dp=1, tp=4), tmp_path).jobs) == 3
    ((line, what),) = complaints(WORLD + _job(dp=2, tp=4))
    assert (line, "needs 2 free groups of 4 GPUs, 1 are left" in what) == (9, True)
    ((line, what),) = complaints(WORLD + _job(dp=5))
    assert (line, "dp 5 x pp 1 x tp 1 = 5 GPUs" in what) == (9, True)


def test_every_job_that_finds_no_room_is_named(complaints: Complaints) -> None:
    found = complaints(WORLD + _job(dp=100) + _job(name="delta", dp=5) + _job(name="eps", dp=4))
    assert [line for line, _ in found] == [9, 10]


def test_an_idle_cluster_needs_an_end(complaints: Complaints, tmp_path: Path) -> None:
    ((line, what),) = complaints("cluster: {servers: 2}\njobs: []\n")
    assert (line, "the simulation has no end" in what) == (2, True)
    idle = _loaded("cluster: {servers: 2}\njobs: []\nduration_s: 1\n", tmp_path)
    assert (idle.jobs, idle.duration_s) == ((), 1)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("kind: slow_gpu, job: alpa, rank: 0, from_step: 1", "(did you mean alpha?)"),
        ("kind: slow_gpu, job: alpha, rank: 8, from_step: 1", "rank 8 is not one of the 8 ranks"),
        ("kind: slow_gpu, job: alpha, rank: 0, from_step: 10", "from_step 10 lies after"),
        ("kind: slow_gpu, job: alpha, rank: 0, from_step: 9, to_step: 11", "to_step 11 lies"),
        ("kind: slow_nic, job: beta, rank: 4, from_s: 1", "rank 4 is not one of the 4 ranks"),
        ("kind: slow_nic, server: s0002, nic: 0, from_s: 1", "there is no server 's0002'"),
        ("kind: slow_nic, server: s0001, nic: 4, from_s: 1", "there is no NIC 4"),
        ("kind: slow_link, a: leaf004, b: spine00, from_s: 1", "nothing in the cluster is called"),
        ("kind: slow_link, a: leaf000, b: leaf001, from_s: 1", "no link joins leaf000 and leaf001"),
        ("kind: slow_link, a: 10.0.0.2, b: leaf000, from_s: 1", "links lead to leaf001"),
        ("kind: slow_link, a: 10.0.0.1, b: 10.0.1.1, from_s: 1", "no link joins"),
        ("kind: slow_switch, switch: spine02, from_s: 1", "there is no switch 'spine02'"),
        ("kind: slow_switch, switch: leaf000, from_s: 99", "the simulation ends at 60.0 s"),
        ("kind: slow_gpu, job: beta, rank: 0, from_s: 60", "the simulation ends at 60.0 s"),
        ("kind: slow_switch, switch: leaf000, job: nobody, to_step: 9", "unknown job 'nobody'"),
    ],
)
def test_a_fault_must_name_something_that_exists(
    complaints: Complaints, fault: str, complaint: str
) -> None:
    text = f"{WORLD}duration_s: 60\nfaults:\n  - {{factor: 0.5, {fault}}}\n"
    ((line, what),) = complaints(text)
    assert line == 11
    assert complaint in what


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("schedule: interleaved, chunks: 2", "4 micro-batches cannot be interleaved over 1 stages"),
        ("chunks: 2", "schedule 1f1b has one chunk a stage, and chunks is 2"),
        ("stage_layers: [31]", "stage_layers has 1 parts with 31 layers in all"),
        (
            "schedule: interleaved, pp: 2, dp: 1, chunks: 2, stage_layers: [0, 16, 0, 16]",
            "a part of the model between the first and the last has no layer",
        ),
        ("stage_factors: [1, 2]", "stage_factors has 2 factors for 1 stages"),
        ("hybrid_shards: 3", "4 replicas cannot be cut into groups of 3"),
        ("hybrid_shards: 2, zero_stage: 0", "hybrid_shards shards what zero_stage 0 does not"),
        ("overlap_param_gather: true, zero_stage: 3", "has nothing to overlap with zero_stage 3"),
        ("ep: 2", "ep 2 shares experts, and the model has none"),
        ("ep: 3, moe: {experts: 6}", "3 expert-parallel ranks cannot be taken from 4 replicas"),
        ("ep: 4, moe: {experts: 6}", "6 experts cannot be shared evenly by 4 ranks"),
        ("moe: {experts: 2, top_k: 3}", "a token cannot be sent to 3 of 2 experts"),
        ("moe: {experts: 4}, zero_stage: 3", "experts with fully sharded parameters"),
        ("ep: 2, moe: {experts: 4}, length_spread: 0.1", "sequences of different lengths"),
        ("sequence_length: 7, dp: 2, cp: 2", "7 tokens cannot be cut into 2 equal parts"),
        ("model: deepseek-v3, dp: 2, cp: 2", "context parallelism of latent attention"),
        ("checkpoint: {every: 2}", "job gamma needs storage for its checkpoint"),
        ("loading: {}", "job gamma needs storage for its loading"),
        (
            "restarts: [{step: 1, rank: 4, down_s: 1}]",
            "rank 4 is not one of the 4 ranks of job gamma",
        ),
        ("restarts: [{step: 10, down_s: 1}]", "step 10 lies after the last step of job gamma"),
        ("restarts: [{step: 4, down_s: 1}, {step: 4, down_s: 1}]", "step 4 is over before step 4"),
    ],
)
def test_the_values_of_a_job_must_fit_together(
    complaints: Complaints, change: str, complaint: str
) -> None:
    model = "" if "model:" in change else "model: llama-7b, "
    job = f"  - {{name: gamma, {model}micro_batches: 4, steps: 10, {change}"
    found = complaints(WORLD + job + ("" if " dp:" in change else ", dp: 4") + "}\n")
    assert [line for line, _ in found] == [9]
    assert complaint in found[0][1]


def test_servers_of_storage_and_background_must_exist_and_have_no_job(
    complaints: Complaints,
) -> None:
    text = WORLD + "storage: [s0001, s0009]\nbackground:\n  - {name: alpha, flows_per_s: 1, "
    found = complaints(text + "median_bytes: 1, to: s0008}\n")
    assert [(line, what.split(" (")[0]) for line, what in found] == [
        (8, "job beta needs 4 free groups of 1 GPUs, 0 are left"),
        (9, "there is no server 's0009' in the cluster"),
        (11, "a job and background traffic are both called 'alpha'"),
        (11, "there is no server 's0008' in the cluster"),
    ]


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        ("name: logs", "background traffic is called 'logs' twice"),
        ("name: more, servers: [s0001], to: s0001", "'more' goes from s0001 to itself"),
    ],
)
def test_background_traffic_has_a_name_of_its_own_and_leaves_its_server(
    complaints: Complaints, second: str, complaint: str
) -> None:
    sizes = "flows_per_s: 1, median_bytes: 1"
    lines = f"background:\n  - {{name: logs, {sizes}}}\n  - {{{second}, {sizes}}}\n"
    ((line, what),) = complaints(WORLD + lines)
    assert line == 11
    assert complaint in what


def test_background_traffic_needs_a_second_server(complaints: Complaints) -> None:
    text = "cluster: {servers: 1}\njobs: []\nduration_s: 1\nbackground:\n"
    ((line, what),) = complaints(text + "  - {name: logs, flows_per_s: 1, median_bytes: 1}\n")
    assert line == 5
    assert "'logs' goes from s0000 to itself" in what


@pytest.mark.parametrize("to_s", [1, 2])
def test_an_outage_ends_after_it_begins(complaints: Complaints, to_s: int) -> None:
    text = f"{WORLD}collector:\n  effects:\n    - kind: outages\n      windows:\n"
    ((line, what),) = complaints(f"{text}        - {{from_s: 2, to_s: {to_s}}}\n")
    assert line == 13
    assert f"the window from 2.0 s to {to_s}.0 s is empty" in what


PLANES = WORLD.replace("leaf_ports: 8", "leaf_ports: 8, planes: 2").replace(
    "nics_per_server: 4", "nics_per_server: 4\n  nic_ports: 2"
)
EFFECTS = {"silent_switches", "paths", "nat", "moved_addresses", "dns", "pings"}


@pytest.mark.parametrize(
    ("world", "part", "complaint"),
    [
        (WORLD, "kind: slow_server, server: s0099, factor: 0.5", "no server 's0099'"),
        (WORLD, "kind: uneven_stage, job: alpha, stage: 2, factor: 0.5", "stage 2 is not one of"),
        (WORLD, "kind: polarised_hashing, leaf: leaf000, used: 8", "8 uplinks are used"),
        (WORLD, "kind: job_congestion, leaf: leaf000, between: [alpha, b]", "unknown job 'b'"),
        (WORLD, "kind: job_congestion, leaf: leaf000, between: [beta, beta]", "meet itself"),
        (WORLD, "kind: incast_burst, server: s0001, senders: 8, burst_bytes: 1, every_s: 1",
         "8 servers cannot send"),
        (WORLD, "kind: expert_imbalance, job: beta, spread: 0.5", "share no experts"),
        (WORLD, "kind: failed_leaf, leaf: leaf000", "NICs have a single port"),
        (WORLD, "kind: failed_plane, plane: 0", "the fabric has a single plane"),
        (PLANES, "kind: failed_plane, plane: 2", "there is no plane 2 among 2"),
        (WORLD, "kind: uneven_spraying, leaf: leaf000, preferred: 8", "only 8"),
        (WORLD, "kind: silent_switches, switches: [leaf999]", "leaf999"),
        (WORLD, "kind: paths, hidden: [spine99]", "spine99"),
        (WORLD, "kind: nat, servers: [s0009]", "s0009"),
        (WORLD, "kind: moved_addresses, moves: [{address_of: s9, to: s0000, at_s: 0}]", "'s9'"),
        (WORLD, "kind: moved_addresses, moves: [{address_of: s0000, to: s0, at_s: 0}]", "'s0'"),
        (WORLD, "kind: dns, at: s0009", "neither a server nor an address"),
        (WORLD, "kind: dns, at: nowhere", "neither"),
        (WORLD, "kind: pings, ahead: 2", "2 places after a server is the same one"),
    ],
)  # fmt: skip
def test_a_fault_or_an_effect_must_be_possible(
    complaints: Complaints, world: str, part: str, complaint: str
) -> None:
    is_effect = part.split()[1][:-1] in EFFECTS
    above = "collector:\n  effects:\n  - kind: headers" if is_effect else "duration_s: 60\nfaults:"
    text = f"{world}{above}\n  - {{{part}{'' if is_effect else ', from_s: 0'}}}\n"
    found = complaints(text)
    assert {line for line, _ in found} == {text.count("\n")}
    assert any(complaint in what for _, what in found), found


def test_a_campaign_needs_an_end_and_a_limit(complaints: Complaints) -> None:
    for keys, complaint in (
        ("{}", "the campaign has no end"),
        ("{until_s: 1.0e+8, acceleration: 1.0e+6}", "at most 10,000"),
    ):
        ((_, what),) = complaints(f"{WORLD}campaign: {keys}\n")
        assert complaint in what
