"""The transport belongs to a job: two jobs of one scenario may differ in all that it decides."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from prism_sim.cluster.ways import ROCE_PORT, UDP
from prism_sim.collector.tuples import TCP
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from tiny import TINY_MODEL

ONE_EACH = {"gpus_per_server": 1, "nics_per_server": 1, "servers": 4}


def job(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name, "model": TINY_MODEL, "dp": 2, "micro_batches": 2, "steps": 2,
        "zero_stage": 0, **fields,
    }  # fmt: skip


def flows_by_job(folder, jobs, *listed):
    """Records of each job, separated by the addresses in the truth."""
    run = Run(folder)
    scenario = {"name": "t", "cluster": ONE_EACH, "jobs": jobs, "collector": {"effects": listed}}
    simulate(Scenario.model_validate(scenario), run)
    owner = run.truth("ranks").drop_duplicates("address").set_index("address")["job"]
    flows = pd.read_parquet(run.flows)
    return dict(list(flows.groupby(flows["src"].astype(str).map(owner))))


def check_roce(flows: pd.DataFrame) -> None:
    assert set(flows["protocol"]) == {UDP}
    assert ((flows["dst_port"] == ROCE_PORT) | (flows["src_port"] == ROCE_PORT)).all()


def check_tcp(flows: pd.DataFrame) -> None:
    assert set(flows["protocol"]) == {TCP}
    assert ROCE_PORT not in set(flows["dst_port"])
    ports = flows[["src", "dst", "src_port", "dst_port"]].astype(str)
    there = set(ports.itertuples(index=False, name=None))
    assert {(dst, src, to, of) for src, dst, of, to in there} == there  # one connection both ways


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        ({}, check_roce),
        ({"library": {}}, check_tcp),
        ({"transport": "tcp"}, check_tcp),
        ({"library": {}, "transport": "roce"}, check_roce),
    ],
)
def test_a_job_decides_without_any_effect(tmp_path, fields, check):
    flows = flows_by_job(tmp_path, [job("a", **fields)])["a"]
    if check is check_tcp and "library" not in fields:  # a ring of two uses both directions
        assert len(flows)
    check(flows)


def test_two_jobs_with_different_transports(tmp_path):
    jobs = [job("a"), job("b", library={})]
    flows = flows_by_job(tmp_path, jobs, {"kind": "headers"}, {"kind": "acknowledgements"})
    roce, tcp = flows["a"], flows["b"]
    assert set(roce["protocol"]) == {UDP}
    assert set(tcp["protocol"]) == {TCP}
    for records, mtu, header, acknowledgement in ((roce, 4096, 44, 48), (tcp, 1448, 52, 52)):
        data, bare = records[records["payload"] > 0], records[records["payload"] == 0]
        assert (data["packets"] == -(-data["payload"] // mtu)).all()
        assert (data["bytes"] == data["payload"] + header * data["packets"]).all()
        assert len(bare)
        assert (bare["bytes"] == acknowledgement * bare["packets"]).all()


def test_handshakes_follow_the_transport(tmp_path):
    """TCP uses the connection itself; RoCE uses an additional TCP connection."""
    jobs = [job("a"), job("b", transport="tcp")]
    flows = flows_by_job(tmp_path, jobs, {"kind": "headers"}, {"kind": "connections"})
    roce, tcp = flows["a"], flows["b"]
    assert set(roce["protocol"]) == {UDP, TCP}
    assert ROCE_PORT not in set(roce.loc[roce["protocol"] == TCP, "dst_port"])
    ends = ["src", "dst", "src_port", "dst_port"]
    first = tcp.sort_values("start_ns", kind="stable").drop_duplicates(ends)
    assert (first["payload"] <= 8).all()  # gloo's number of the pair, or nothing
    assert len(tcp.drop_duplicates(ends)) == len(first)


@pytest.mark.parametrize("given", ["roce", "tcp"])
def test_the_key_of_headers_is_for_jobs_that_give_none(tmp_path, given):
    jobs = [job("a", library={}), job("b", transport="roce" if given == "tcp" else "tcp")]
    flows = flows_by_job(tmp_path, jobs, {"kind": "headers", "transport": given})
    number = {"roce": UDP, "tcp": TCP}
    assert set(flows["a"]["protocol"]) == {number[given]}
    assert set(flows["b"]["protocol"]) == {UDP + TCP - number[given]}


def test_given_sizes_are_used_for_every_transport(tmp_path):
    headers = {"kind": "headers", "mtu_payload_bytes": 1000, "header_bytes": 7}
    flows = flows_by_job(tmp_path, [job("a"), job("b", transport="tcp")], headers)
    for records in flows.values():
        assert (records["packets"] == -(-records["payload"] // 1000)).all()
        assert (records["bytes"] == records["payload"] + 7 * records["packets"]).all()
