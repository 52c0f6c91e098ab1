"""Headers and segments of transports, and what is sent again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from prism_sim.cluster.ways import ROCE_PORT, UDP
from prism_sim.collector.tuples import TCP
from prism_sim.toolkit import Run, Scenario, simulate
from records import collected, effects, many
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


HEADERS = {"kind": "headers", "header_bytes": 44}
PACKETS = 10  # of every record of `many`
FULL = 4096 + 44


def again(probability, **more):
    return {"kind": "retransmissions", "probability": probability, **more}


def test_packets_sent_again_are_binomial(tmp_path):
    n, p = 20_000, 0.05
    frame = collected(tmp_path, effects(HEADERS, again(p)), many(n))
    extra = frame["packets"] - PACKETS
    mean, deviation = n * PACKETS * p, (n * PACKETS * p * (1 - p)) ** 0.5
    assert abs(extra.sum() - mean) < 4 * deviation
    assert (extra == 0).mean() == pytest.approx((1 - p) ** PACKETS, abs=4 * 0.5 / n**0.5)
    assert (frame["bytes"] == frame["packets"] * FULL).all()
    assert (frame["payload"] == frame["packets"] * 4096).all()


def test_copies_take_their_time_at_the_pace_of_the_record(tmp_path):
    frame = collected(tmp_path, effects(HEADERS, again(0.05)), many(1000))
    length = frame["end_ns"] - frame["start_ns"]
    assert (length == 1000 * frame["packets"] // PACKETS).all()  # 100 ns a packet


def test_a_restart_repeats_the_steps_after_the_save(tmp_path):
    one = collected(tmp_path, effects(HEADERS, again(0.01)), many(1000))
    many_more = collected(tmp_path, effects(HEADERS, again(0.01, packets_a_loss=7)), many(1000))
    extra, more = one["packets"] - PACKETS, many_more["packets"] - PACKETS
    assert extra.sum() > 0
    assert (more == 7 * extra).all()


def test_the_destination_counts_every_packet_once(tmp_path):
    both = {"kind": "observation", "point": "both"}
    frame = collected(tmp_path, effects(HEADERS, both, again(0.05)), many(1000))
    there = frame[frame["start_ns"] % 10_000 == 0].reset_index(drop=True)
    here = frame[frame["start_ns"] % 10_000 == 2000].reset_index(drop=True)
    assert len(there) == len(here) == 1000
    assert set(here["packets"]) == {PACKETS}
    assert there["packets"].max() > PACKETS
    assert (here["end_ns"] - there["end_ns"] == 2000).all()  # as late at both leaves


def test_no_other_draw_moves(tmp_path):
    loss = {"kind": "loss", "probability": 0.5}
    plain = collected(tmp_path, effects(HEADERS, loss), many(2000))
    disturbed = collected(tmp_path, effects(HEADERS, loss, again(0.05)), many(2000))
    pd.testing.assert_series_equal(plain["start_ns"], disturbed["start_ns"])
    assert np.any(plain["bytes"] != disturbed["bytes"])


def test_it_needs_packets(tmp_path):
    with pytest.raises(ValueError, match="retransmissions need packets; add the effect headers"):
        collected(tmp_path, effects(again(0.1)), many(1))
