"""Replicas that share a server: the rings that NVLink joins are one data-parallel group."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import prism_sim as ps
from llmprism.methods.prism.layout.layout import UNKNOWN
from llmprism.methods.prism.layout.replicas import with_common_ends, with_unseen_ends
from llmprism.methods.prism.phases.moments import MISSING, Moments
from llmprism.methods.prism.phases.phases import Phases

SCENARIO = """\
cluster: {servers: 4, gpus_per_server: 4, nics_per_server: 4,
          fabric: {kind: rail, leaf_ports: 8}}
jobs:
  - name: solo
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: %d
    pp: 2
    tp: %d
    micro_batches: 4
    steps: 5
    compute_jitter: %s
"""


def result_of(tmp_path, dp, tp, jitter):
    path = tmp_path / "world.yaml"
    path.write_text(SCENARIO % (dp, tp, jitter))
    return ps.run(path, out=tmp_path / "run")


@pytest.mark.parametrize(("dp", "tp"), [(2, 4), (4, 2), (8, 1)])
def test_groups_are_whole_for_any_number_of_replicas_in_a_server(tmp_path, dp, tp):
    result = result_of(tmp_path, dp, tp, 0.01)
    assert result.score["parallelism"]["groups_exact"] == 1
    assert list(result.diagnosis.layouts[["dp", "tp"]].iloc[0]) == [dp, tp]


@pytest.mark.parametrize(("dp", "tp"), [(4, 2), (8, 1)])
def test_clocks_of_exporters_that_are_a_millisecond_apart_make_no_replicas(tmp_path, dp, tp):
    """The NICs of a server are on as many leaves, so what they send together seems to be apart."""
    (tmp_path / "world.yaml").write_text(SCENARIO % (dp, tp, 0.01) + CLOCKS)
    (layout,) = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").diagnosis.layouts.to_dict(
        "records"
    )
    assert (layout["dp"], layout["tp"]) == (dp, tp)
    assert layout["confidence"] > 0.9


def test_without_noise_nothing_is_joined_and_the_confidence_is_low(tmp_path):
    noisy, exact = (result_of(tmp_path / name, 4, 2, jitter) for name, jitter in CASES)
    sizes = exact.diagnosis.groups.query("kind == 'dp'").groupby("group").size()
    assert set(sizes) == {2}
    assert exact.diagnosis.layouts["confidence"].max() < noisy.diagnosis.layouts["confidence"].min()


def test_nobody_knows_of_a_nic_that_no_exporter_saw_and_that_gets_nothing(tmp_path):
    path = tmp_path / "world.yaml"
    path.write_text(HALF_SEEN)
    (layout,) = ps.run(path, out=tmp_path / "run").diagnosis.layouts.to_dict("records")
    assert (layout["dp"], layout["pp"]) == (2, 2)


@pytest.mark.parametrize(("servers", "pp"), [(2, UNKNOWN), (4, 4)])
def test_stages_inside_a_server_are_unknown_if_more_activations_wait(tmp_path, servers, pp):
    path = tmp_path / "world.yaml"
    path.write_text(HIDDEN % (16 // servers, 16 // servers, servers))
    (layout,) = ps.run(path, out=tmp_path / "run").diagnosis.layouts.to_dict("records")
    assert layout["pp"] == pp


CLOCKS = "collector: {effects: [{kind: clocks, offset_us: 1000}]}\n"
HALF_SEEN = """\
cluster: {servers: 4, gpus_per_server: 2, nics_per_server: 2,
          fabric: {kind: rail, leaf_ports: 4}}
collector: {effects: [{kind: silent_switches, switches: [leaf001]}]}
jobs:
  - name: solo
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: 2
    pp: 2
    tp: 2
    micro_batches: 4
    steps: 5
    compute_jitter: 0.01
"""
HIDDEN = """\
cluster: {gpus_per_server: %d, nics_per_server: %d, servers: %d, fabric: {leaf_ports: 8}}
jobs:
  - name: solo
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: 2
    pp: 4
    tp: 2
    micro_batches: 8
    steps: 5
    compute_jitter: 0.01
"""
CASES = [("noisy", 0.01), ("exact", 0.0)]


@pytest.fixture(autouse=True)
def folders(tmp_path):
    for name, _ in CASES:
        (tmp_path / name).mkdir()


def test_a_collective_over_two_nics_ends_with_the_slower_one():
    """Two rows are NICs of one server and group; the third is of another server."""
    topology = SimpleNamespace(servers=np.array([0, 0, 1, 1], np.int32))
    end_ns = np.array([[10, 30, MISSING], [20, 25, 50], [18, 40, 60], [11, 31, 41]], np.int64)
    phases = Phases(
        np.arange(4, dtype=np.int32), 3, np.array([0]), (), 1.0,
        {"dp": Moments(end_ns - 5, end_ns, end_ns), "pp": Moments(end_ns, end_ns, end_ns)},
        np.array([0, 1, 0, -1]),
    )  # fmt: skip
    same = with_common_ends(topology, phases, phases.dp_group)
    assert same is phases
    joined = with_common_ends(topology, phases, np.array([0, 0, 0, -1])).moments["dp"].end_ns
    assert joined.tolist() == [[20, 30, MISSING], [20, 30, 50], [18, 40, 60], [11, 31, 41]]
    assert phases.moments["dp"].end_ns[0, 0] == 10


def test_a_nic_that_shows_nothing_ends_a_step_with_its_server():
    """Two servers of two NICs, each a stage; nothing is seen of the second NIC of either."""
    topology = SimpleNamespace(servers=np.array([0, 0, 1, 1], np.int32))
    end_ns = np.array([[10, 30], [MISSING, MISSING], [18, 40], [MISSING, MISSING]], np.int64)
    phases = Phases(
        np.arange(4, dtype=np.int32), 2, np.array([0]), (), 1.0,
        {"dp": Moments(end_ns, end_ns, end_ns), "pp": Moments(end_ns, end_ns, end_ns)},
        np.array([0, -1, 1, -1]),
    )  # fmt: skip
    ended = with_unseen_ends(topology, phases, np.array([0, -1, 1, -1])).moments["dp"].end_ns
    assert ended.tolist() == [[10, 30], [10, 30], [18, 40], [18, 40]]
    in_sight = with_unseen_ends(topology, phases, np.array([0, 1, 1, 0])).moments["dp"].end_ns
    assert in_sight.tolist() == end_ns.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("pp", [6, 8])
def test_pipelines_that_go_on_inside_servers_are_no_replicas(tmp_path, pp):
    """Two replicas on servers of four GPUs: every other hop of the pipeline is NVLink's."""
    text = SCENARIO.replace("pp: 2", f"pp: {pp}").replace("layers: 8", "layers: 24")
    (tmp_path / "world.yaml").write_text(text % (2, 1, 0.01))
    result = ps.run(tmp_path / "world.yaml", out=tmp_path / "run")
    layouts = result.diagnosis.layouts
    assert layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[UNKNOWN] * 3]
    assert layouts["schedule"].tolist() == ["unknown"]


@pytest.mark.slow
@pytest.mark.parametrize(("dp", "known"), [(2, False), (4, True)])
def test_stages_that_may_be_on_idle_nics_before_the_first_one_are_unknown(tmp_path, dp, known):
    """Four replicas fill a server with each stage; two leave room for another one."""
    text = SCENARIO.replace("pp: 2", "pp: 4\n    schedule: gpipe")
    (tmp_path / "world.yaml").write_text(text % (dp, 1, 0.01))
    (layout,) = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").diagnosis.layouts.itertuples()
    assert layout.pp == (4 if known else UNKNOWN)
    assert known or layout.confidence <= 0.5
