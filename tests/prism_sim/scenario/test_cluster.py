"""The hardware of a scenario: sizes, GPUs by name, and transports."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from prism_sim.loading.job import TracedJob
from prism_sim.scenario.gpus import GPUS
from prism_sim.scenario.names import server_index
from prism_sim.toolkit import Cluster, Job, server_name


def _cluster(**values: object) -> Cluster:
    return Cluster.model_validate({"servers": 4} | values)


def test_by_default_a_leaf_has_as_much_bandwidth_up_as_down() -> None:
    cluster = _cluster(fabric={"leaf_ports": 64})
    assert cluster.uplinks * cluster.uplink_gbps == 64 * cluster.nic_gbps


def test_faster_uplinks_need_fewer() -> None:
    cluster = _cluster(nic_gbps=200, fabric={"leaf_ports": 32, "uplink_gbps": 800, "spines": 2})
    assert cluster.uplinks == 8


def test_uplinks_are_rounded_up_to_whole_links_a_spine() -> None:
    assert _cluster(fabric={"leaf_ports": 10, "spines": 4}).uplinks == 12
    assert _cluster(fabric={"leaf_ports": 1, "uplink_gbps": 10_000, "spines": 4}).uplinks == 4


def test_a_rail_leaf_takes_one_nic_of_each_server_of_its_block() -> None:
    cluster = _cluster(servers=5, nics_per_server=2, fabric={"kind": "rail", "leaf_ports": 4})
    assert cluster.leaves == 4
    slots = {(s, n): cluster.leaf_of(s, n) for s in range(5) for n in range(2)}
    assert [slot for slot, leaf in slots.items() if leaf == 1] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [slot for slot, leaf in slots.items() if leaf == 2] == [(4, 0)]


def test_a_top_of_rack_leaf_takes_all_nics_of_its_servers() -> None:
    cluster = _cluster(servers=5, nics_per_server=2, fabric={"kind": "tor", "leaf_ports": 4})
    assert cluster.leaves == 3
    assert [cluster.leaf_of(server, 1) for server in range(5)] == [0, 0, 1, 1, 2]


def test_no_leaf_has_more_nics_than_ports() -> None:
    for kind in ("rail", "tor"):
        cluster = _cluster(servers=37, nics_per_server=4, fabric={"kind": kind, "leaf_ports": 8})
        leaves = [cluster.leaf_of(s, n) for s in range(37) for n in range(4)]
        assert max(leaves.count(leaf) for leaf in leaves) <= 8
        assert max(leaves) == cluster.leaves - 1


@pytest.mark.parametrize("name", ["s7", "s00007", "x0007", "s", "7", ""])
def test_only_a_name_in_its_one_spelling_is_a_server(name: str) -> None:
    assert server_index(name) is None


def test_servers_beyond_four_digits_have_names_too() -> None:
    assert server_index(server_name(12_345)) == 12_345


def cluster(**fields: object) -> Cluster:
    return Cluster.model_validate({"servers": 2} | fields)


@pytest.mark.parametrize("name", GPUS)
def test_a_name_gives_all_numbers_and_each_has_a_source(name):
    data, made = GPUS[name], cluster(gpu=name)
    assert made.gpu.peak_tflops == data.peak_tflops
    assert made.gpu.memory_gbytes_per_s == data.memory_gbytes_per_s
    assert made.nvlink_gbps == data.nvlink_gbps
    assert "data sheet" in data.source or "arXiv" in data.source


def test_the_default_is_an_h100():
    assert cluster() == cluster(gpu="h100") == cluster(gpu="H100")


def test_numbers_next_to_a_name_are_used():
    assert cluster(gpu="h800", nvlink_gbps=3200).nvlink_gbps == 3200


def test_numbers_are_accepted_as_before():
    assert cluster(gpu={"peak_tflops": 500}).gpu.peak_tflops == 500


def test_a_resolved_cluster_reads_back_as_the_same():
    made = cluster(gpu="b200")
    assert Cluster.model_validate(made.model_dump()) == made


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValidationError, match="did you mean h100"):
        cluster(gpu="h10")


def test_editors_are_offered_the_names():
    schema = Cluster.model_json_schema()
    assert [*GPUS] in [option.get("enum") for option in schema["properties"]["gpu"]["anyOf"]]


def job(**fields: object) -> Job:
    base = {"name": "a", "model": "llama-7b", "micro_batches": 1, "steps": 1}
    return Job.model_validate(base | fields)


@pytest.mark.parametrize("written", [{}, {"transport": "tcp"}])
def test_a_job_that_follows_a_trace_has_one_too(written):
    trace = {"kind": "simai", "file": "workload.txt"}
    traced = TracedJob.model_validate({"name": "a", "trace": trace} | written)
    assert traced.wire_transport == written.get("transport", "roce")
