"""A scenario file is read, or refused with every reason at its line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from prism_common.errors import UserError
from prism_sim.faults import SlowGpu
from prism_sim.loading.loader import load_with_warnings, parse_override
from prism_sim.toolkit import OnServers, load_scenario, preset

Complaints = Callable[..., list[tuple[int | str, str]]]

GOOD = """\
cluster:
  servers: 4
jobs:
  - name: alpha
    model: llama-7b
    dp: 4
    pp: 2
    tp: 2
    micro_batches: 8
    steps: 10
    placement: {servers: [s0003, s0001]}
faults:
  - kind: slow_gpu
    job: alpha
    rank: 3
    factor: 0.5
    from_step: 4
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good world.yaml"
    path.write_text(GOOD)
    return path


def test_a_good_file_becomes_the_scenario_it_describes(good: Path) -> None:
    scenario = load_scenario(good)
    (job,) = scenario.jobs
    assert scenario.name == "good world"
    assert scenario.cluster.servers == 4
    assert (job.name, job.model, job.ranks) == ("alpha", preset("llama-7b"), 16)
    assert job.placement == OnServers(servers=("s0003", "s0001"))
    assert scenario.faults == (SlowGpu(job="alpha", rank=3, factor=0.5, from_step=4),)


def test_missing_values_are_derived(good: Path) -> None:
    (job,) = load_scenario(good).jobs
    assert job.tokens == 4096
    assert job.bucket_limit_params == 40_000_000
    (wide,) = load_scenario(good, {"jobs.0.dp": 64, "jobs.0.tp": 1, "jobs.0.pp": 1,
                          "jobs.0.placement": "packed", "cluster.servers": 8}).jobs  # fmt: skip
    assert wide.bucket_limit_params == 64_000_000
    (whole,) = load_scenario(good, {"jobs.0.overlap_gradients": False}).jobs
    assert whole.bucket_limit_params is None


def test_overrides_replace_values_before_validation(good: Path) -> None:
    changed = load_scenario(
        good, {"seed": 7, "jobs.0.steps": 5, "cluster.fabric.spines": 2, "name": "n"}
    )
    assert (changed.seed, changed.jobs[0].steps, changed.name) == (7, 5, "n")
    assert changed.cluster.fabric.spines == 2


def test_an_empty_override_restores_the_default(good: Path) -> None:
    assert load_scenario(good, {"jobs.0.placement": None}).jobs[0].placement == "packed"


def test_a_bad_override_is_reported_as_such(complaints: Complaints) -> None:
    assert complaints(GOOD, {"jobs.0.dp": 0}) == [
        ("--set jobs.0.dp", "jobs.0.dp is 0, and should be greater than or equal to 1 "
         "(dp: Data-parallel replicas.)"),
    ]  # fmt: skip


def test_overrides_that_lead_nowhere_are_all_reported(complaints: Complaints) -> None:
    found = complaints(GOOD, {"jobs.1.dp": 1, "jobs.alpha.dp": 1, "cluster.servers.x": 1, "": 1})
    assert [where for where, _ in found] == [
        "--set jobs.1.dp",
        "--set jobs.alpha.dp",
        "--set cluster.servers.x",
        "--set ",
    ]
    assert "jobs has 1 items" in found[0][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jobs.0.dp=4", ("jobs.0.dp", 4)),
        ("a=b=c", ("a", "b=c")),
        ("a=[1, 2.5]", ("a", [1, 2.5])),
        ("a=1e3", ("a", 1000.0)),
        ("a=", ("a", None)),
        ("a=no", ("a", "no")),
    ],
)
def test_an_override_is_a_path_and_a_yaml_value(text: str, expected: tuple[str, object]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["jobs.0.dp", "=4", "a=[1"])
def test_an_override_without_path_or_value_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--set"):
        parse_override(text)


def test_each_kind_of_wrong_value_points_to_its_line(complaints: Complaints) -> None:
    found = complaints(
        """\
name: [x]
seed: -1
cluster:
  servers: two
  fabric:
    kind: rial
    hop_latency_ns: .inf
jobs:
  - name: alpha
    model: lama-7b
    dp: 0
    micro_batches: 8.5
    placement: pakced
    zero_stage: 4
    overlap_gradients: maybe
    steps: 10
  - not a job
faults:
  - kind: slow_gpuu
  - factor: 0.5
"""
    )
    assert [line for line, _ in found] == [1, 2, 4, 6, 7, 10, 11, 12, 13, 14, 15, 17, 19, 20]
    reported = dict(found)
    assert "cluster.servers is 'two'" in reported[4]
    assert "did you mean rail?" in reported[6]
    assert "finite number" in reported[7]
    assert "did you mean llama-7b?" in reported[10]
    assert "did you mean packed?" in reported[13]
    assert "zero_stage is 4" in reported[14]
    assert "did you mean slow_gpu?" in reported[19]
    assert "faults.1 needs the key 'kind'" in reported[20]


def test_an_unknown_key_points_to_the_key_and_a_missing_one_to_its_owner(
    complaints: Complaints,
) -> None:
    found = complaints(
        """\
cluster:
  servers: 4
  fabric:
    leaf_prots: 32
jobs:
  - name: alpha
    model:
      layers: 4
      hiden: 64
    micro_batches: 8
colector:
  idle_gap_us: 5
faults:
  - kind: slow_nic
    server: s0000
    nick: 3
"""
    )
    assert [(line, what.split(" (")[0]) for line, what in found] == [
        (4, "unknown key 'leaf_prots' in cluster.fabric"),
        (6, "jobs.0 needs the key 'steps'"),
        (7, "jobs.0.model needs the key 'hidden'"),
        (7, "jobs.0.model needs the key 'heads'"),
        (7, "jobs.0.model needs the key 'vocab'"),
        (7, "jobs.0.model needs the key 'sequence_length'"),
        (9, "unknown key 'hiden' in jobs.0.model"),
        (11, "unknown key 'colector' in the scenario"),
        (14, "faults.0 needs the key 'factor'"),
        (16, "unknown key 'nick' in faults.0"),
    ]
    assert "did you mean leaf_ports?" in found[0][1]
    assert "did you mean hidden?" in found[6][1]
    assert "did you mean collector?" in found[7][1]
    assert "did you mean nic?" in found[9][1]


def test_consequences_of_a_wrong_value_are_not_reported(complaints: Complaints) -> None:
    """The mistake of each line is reported, but not its consequences."""
    found = complaints(
        """\
cluster:
  serverz: 64
jobs:
  - {nam: alpha, model: llama-7b, dp: 64, micro_batches: 8, steps: 10}
  - {name: beta, model: {layers: 30}, pp: 4, tp: 3, micro_batches: 8, steps: 10}
  - {name: gamma, model: llama-7b, dpp: 9, micro_batches: 8, steps: 0}
faults:
  - {kind: slow_gpu, job: alpha, rank: 0, factor: 0.5, from_step: 5}
  - {kind: slow_gpu, job: gamma, rank: 8, factor: 0.5, from_step: 5}
  - {kind: slow_nic, server: s0063, nic: 0, factor: 0.5, from_s: 5}
"""
    )
    assert [(line, what.split(" (")[0]) for line, what in found if "needs the key" not in what] == [
        (2, "unknown key 'serverz' in cluster"),
        (4, "unknown key 'nam' in jobs.0"),
        (5, "tp 3 of job beta does not divide the 8 GPUs of a server"),
        (6, "jobs.2.steps is 0, and should be greater than or equal to 1"),
        (6, "unknown key 'dpp' in jobs.2"),
    ]


def test_true_is_not_one(complaints: Complaints) -> None:
    found = complaints(GOOD.replace("dp: 4", "dp: true").replace("servers: 4", "servers: true"))
    assert [(line, what.split(" (")[0]) for line, what in found] == [
        (2, "cluster.servers is true; it must be a number"),
        (6, "jobs.0.dp is true; it must be a number"),
        (11, "there is no server 's0003' in the cluster"),
        (11, "there is no server 's0001' in the cluster"),
    ]


@pytest.mark.parametrize(
    ("window", "complaint"),
    [
        ("from_step: 1, from_s: 2", "the window is given twice"),
        ("to_step: 3, to_s: 2", "the window is given twice"),
        ("from_step: 5, to_step: 5, job: alpha", "the window ends before it begins"),
        ("from_s: 5, to_s: 3", "the window ends before it begins"),
        ("from_step: 5", "a window in steps needs a job"),
    ],
)
def test_a_fault_has_one_window_at_most(
    complaints: Complaints, window: str, complaint: str
) -> None:
    fault = f"  - {{kind: slow_switch, switch: leaf000, factor: 0.5, {window}}}\n"
    ((line, what),) = complaints(GOOD + fault)
    assert line == 18
    assert complaint in what


@pytest.mark.parametrize(
    "place",
    ["", "server: s0000", "nic: 1", "job: alpha", "rank: 1", "server: s0000, job: alpha, rank: 1",
     "server: s0000, nic: 1, job: alpha, rank: 1", "server: s0000, nic: 1, rank: 1"],
)  # fmt: skip
def test_a_slow_nic_is_named_in_exactly_one_way(complaints: Complaints, place: str) -> None:
    fault = f"  - {{kind: slow_nic, factor: 0.5, from_s: 1, {place}}}\n"
    ((line, what),) = complaints(GOOD + fault)
    assert (line, "name the NIC either by server and nic, or by job and rank" in what) == (18, True)


def test_a_scenario_may_be_doubtful_without_being_wrong(good: Path) -> None:
    loaded = load_with_warnings(
        good,
        {"jobs.0.micro_batches": 1, "jobs.0.start_s": 9, "duration_s": 5, "faults.0.factor": 1},
    )
    assert [(w.where, w.what.split(" (")[0]) for w in loaded.warnings] == [
        ("--set jobs.0.micro_batches", "1 micro-batches leave 2 pipeline stages mostly idle"),
        ("--set jobs.0.start_s", "job alpha starts after the simulation's 5.0 s"),
        ("--set faults.0.factor", "a fault of factor 1 changes nothing"),
    ]
    assert load_with_warnings(good).warnings == []


def test_a_job_of_one_rank_is_warned_about(good: Path) -> None:
    changes = {"jobs.0.dp": 1, "jobs.0.pp": 1, "faults.0.rank": 0}
    (warning,) = load_with_warnings(good, changes).warnings
    assert (warning.where, "makes no flows" in warning.what) == (f"{good}:4", True)


def test_a_union_s_own_words_are_no_part_of_the_path(complaints: Complaints) -> None:
    """Neither a fault's kind nor the form of a placement is something its author wrote."""
    found = complaints(
        GOOD.replace("{servers: [s0003, s0001]}", "{servers: [s0003, 7], serverz: x}")
        + "  - {kind: slow_switch, switch: [leaf000], factor: 0.5, from_s: 1}\n  - 7\n"
    )
    assert [(line, what.split(" (")[0]) for line, what in found] == [
        (11, "jobs.0.placement.servers.1 is 7, and should be text"),
        (11, "unknown key 'serverz' in jobs.0.placement"),
        (18, "faults.1.switch is ['leaf000'], and should be text"),
        (19, "faults.2 is 7, and should be a mapping"),
    ]
    assert "did you mean servers?" in found[1][1]


def test_failed_uplinks_count_as_a_fault_with_an_effect(good: Path) -> None:
    fault = {"kind": "failed_uplinks", "leaf": "leaf000", "failed": 1, "from_s": 1.0}
    assert load_with_warnings(good, {"faults.0": fault}).warnings == []


def test_an_all_reduce_that_needs_equal_servers_is_refused_on_others(tmp_path):
    path = tmp_path / "uneven.yaml"
    path.write_text(
        "cluster: {servers: 2, gpus_per_server: 4, nics_per_server: 4}\n"
        "jobs:\n"
        "  - {name: a, model: llama-3.2-1b, dp: 5, micro_batches: 1, steps: 2, zero_stage: 0,\n"
        "     all_reduce: hierarchical}\n"
    )
    with pytest.raises(UserError, match=r"as many ranks of a group in every server, not \[4, 1\]"):
        load_scenario(path)
    assert load_scenario(path, {"jobs.0.dp": 8}).jobs[0].ranks == 8
    assert load_scenario(path, {"jobs.0.all_reduce": "ring"}).jobs[0].ranks == 5
