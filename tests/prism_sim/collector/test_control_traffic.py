"""Control traffic: handshakes, the store, look-ups and monitoring, counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from records import EPOCH, MS, collected, effects, many
from tiny import simulate_one

ROCE = {"kind": "headers"}
OVER_TCP = {
    "kind": "headers", "mtu_payload_bytes": 1448, "header_bytes": 52, "transport": "tcp",
}  # fmt: skip
ENDS = ["src", "src_port", "dst", "dst_port"]


def simulated(folder, *listed, **fields):
    """A job of four stages-and-replicas, one rank a server, with its flow table."""
    run = simulate_one(
        folder, dp=2, pp=2, cluster={"gpus_per_server": 1, "nics_per_server": 1},
        collector=effects(*listed), **fields,
    )  # fmt: skip
    frame = pd.read_parquet(run.flows).astype({"src": str, "dst": str})
    return run, frame.assign(first_ns=frame["start_ns"] - 1_767_225_600 * 10**9)


def both_ways(frame):
    """The connection of each record, in both directions."""
    there = frame[ENDS].itertuples(index=False, name=None)
    return [frozenset({(a, p), (b, q)}) for a, p, b, q in there]


def test_a_tcp_connection_is_opened_once_before_its_first_use(tmp_path):
    _, plain = simulated(tmp_path / "plain", OVER_TCP)
    _, frame = simulated(tmp_path / "set", OVER_TCP, {"kind": "connections", "lead_ms": 2})
    frame["connection"] = both_ways(frame)
    plain["connection"] = both_ways(plain)
    first = plain.groupby("connection")["start_ns"].min()
    small = frame[frame["payload"] < 1000].sort_values("start_ns")
    assert len(small) == 2 * len(first)  # one record each way
    opening = small.groupby("connection").first()
    assert (first - opening["start_ns"] == 2 * MS).all()
    # SYN 60, ACK 52, hello 52 + 8; SYN-ACK 60, ACK 52: the sizes in all real captures
    assert set(zip(small["bytes"], small["packets"], strict=True)) == {(172, 3), (112, 2)}


def test_the_set_up_of_each_queue_pair_uses_a_tcp_connection(tmp_path):
    _, frame = simulated(tmp_path, ROCE, {"kind": "connections"})
    pairs = frame[frame["protocol"] == 17].drop_duplicates(ENDS)
    beside = frame[frame["protocol"] == 6]
    assert len(beside) == 2 * len(pairs)
    # three full segments: SYN, two ACKs; SYN-ACK
    sizes = {(60 + 5 * 52 + 3500, 6), (60 + 3 * 52 + 3500, 4)}
    assert set(zip(beside["bytes"], beside["packets"], strict=True)) == sizes


@pytest.mark.parametrize("headers", [ROCE, OVER_TCP])
def test_a_connection_is_opened_before_a_transfer_that_ends_in_a_later_batch(tmp_path, headers):
    batches = [[(50 * MS, 60 * MS, 5_000_000, 0)], [(10 * MS, 90 * MS, 40_000_000, 0)]]
    frame = collected(tmp_path, effects(headers, {"kind": "connections"}), batches)
    opening = frame[frame["payload"] < 5_000]
    assert len(opening) == 2
    assert opening["start_ns"].min() == 9 * MS


def test_queue_pairs_are_connections_of_their_own_over_tcp(tmp_path):
    batches = [[(k * MS, k * MS + 10, 50_000, k % 2)] for k in range(1, 7)]
    frame = collected(tmp_path, effects(OVER_TCP, {"kind": "connections"}), batches, lines=2)
    assert frame["src_port"].nunique() == 2 + 2
    assert (frame["payload"] == 8).sum() == 2


def test_a_mesh_joins_all_ranks_of_different_servers(tmp_path):
    _, frame = simulated(tmp_path, OVER_TCP, {"kind": "connections", "mesh": True})
    used = {c for c, size in zip(both_ways(frame), frame["payload"], strict=True) if size > 1000}
    assert (frame["payload"] == 8).sum() == len(used) + 4 * 3 // 2


def test_every_other_rank_visits_the_store(tmp_path):
    rendezvous = {"kind": "rendezvous", "before_s": 3, "lasts_s": 1, "requests": 5}
    run, frame = simulated(tmp_path, ROCE, rendezvous, start_s=4)
    asked, answers = frame[frame["dst_port"] == 29500], frame[frame["src_port"] == 29500]
    assert asked.groupby(["src", "src_port"]).size().tolist() == [6, 6, 6]  # SYN, questions
    assert answers.groupby(["dst", "dst_port"]).size().tolist() == [6, 6, 6]
    ranks = run.truth("ranks").set_index("rank")["address"]
    assert set(asked["dst"]) == {ranks[0]}
    assert sorted(asked["src"].unique()) == sorted(ranks[1:])
    assert asked["payload"].sum() == 3 * 5 * 89
    assert asked["first_ns"].between(1e9 - MS, 2e9).all()


def test_ranks_on_the_server_of_the_store_have_no_records(tmp_path):
    run = simulate_one(
        tmp_path, dp=2, pp=2, cluster={"gpus_per_server": 2, "nics_per_server": 2},
        collector=effects(ROCE, {"kind": "rendezvous", "requests": 1}),
    )  # fmt: skip
    frame = pd.read_parquet(run.flows)
    asked = frame[frame["dst_port"] == 29500]
    assert asked["src_port"].nunique() == 2  # two ranks of another server, through one NIC
    assert asked["src"].nunique() == 1


def test_a_restarted_job_has_another_rendezvous(tmp_path):
    attempt = {"step": 1, "noticed_after_s": 1, "down_s": 2}
    rendezvous = {"kind": "rendezvous", "before_s": 1, "lasts_s": 0.5, "requests": 2}
    run, frame = simulated(tmp_path, ROCE, rendezvous, {"kind": "connections"}, restarts=[attempt])
    asked = frame[frame["dst_port"] == 29500].sort_values("start_ns")
    assert asked["src_port"].nunique() == 2 * 3
    again_ns = run.truth("steps").query("step == 2")["start_ns"].min()
    second = asked.tail(3 * 3)["start_ns"]
    assert second.between(again_ns - 1_001 * MS, again_ns - 500 * MS).all()
    pairs = frame[frame["protocol"] == 17].drop_duplicates(ENDS)
    answers = frame[(frame["protocol"] == 6) & (frame["payload"] == 3500)]
    assert len(answers) == 2 * len(pairs)  # queue pairs of the second attempt among them


def test_new_processes_send_nothing_before_the_old_ones_have_ended(tmp_path):
    """Down for 2 s, with a set-up of 5 s: the first packets come 1 s after the end."""
    attempt = {"step": 1, "noticed_after_s": 1, "down_s": 2}
    talk = [
        {"kind": "rendezvous", "requests": 3}, {"kind": "dns", "questions": 1},
        {"kind": "connections", "lead_ms": 5000, "mesh": True},
    ]  # fmt: skip
    run, frame = simulated(tmp_path, ROCE, *talk, restarts=[attempt])
    first, again = (
        run.truth("steps").query(f"step == {step}")["start_ns"].min() for step in (0, 2)
    )
    born = again - 2_000 * MS
    control = frame[frame["protocol"] == 6].assign(asks=frame["dst_port"] == 29500)
    old, new = (control[control["start_ns"].between(*span)] for span in (
        (first - 6_000 * MS, first + 500 * MS), (born, again + 500 * MS)))  # fmt: skip
    assert len(control) == len(old) + len(new)
    assert old["asks"].sum() == new["asks"].sum() == 3 * (1 + 3)
    assert new.loc[new["asks"], "start_ns"].between(born, born + 501 * MS).all()
    mesh = (new["payload"] == 8) & ~new["asks"]
    assert (new.loc[mesh, "start_ns"] == born).all()
    assert mesh.sum() == 4 * 3 // 2
    look_ups = frame.loc[frame["dst_port"] == 53, "start_ns"]
    assert look_ups.between(born, born + 500 * MS).sum() == 4
    assert (look_ups < first).sum() == 4


def test_a_resolver_outside_the_topology_has_requests_and_no_answers(tmp_path):
    run, frame = simulated(tmp_path, ROCE, {"kind": "dns"}, start_s=6)
    asked = frame[frame["dst_port"] == 53]
    assert len(asked) == 4 * 2
    assert asked["src_port"].nunique() == 8
    assert set(asked["bytes"]) == {69}  # as in the real captures
    assert (frame["src_port"] != 53).all()
    assert set(asked["path"].str[-2:]) == {"|?"}
    assert "dns" not in set(run.truth("pairs")["job"])


def test_at_egress_only_the_answers_of_a_foreign_resolver_are_seen(tmp_path):
    egress = {"kind": "observation", "point": "egress"}
    _, frame = simulated(tmp_path, ROCE, egress, {"kind": "dns"})
    assert (frame["dst_port"] != 53).all()
    answers = frame[frame["src_port"] == 53]
    assert len(answers) == 4 * 2
    assert set(answers["path"].str[:2]) == {"?|"}


def test_a_resolver_in_the_cluster_is_a_pair_of_the_truth(tmp_path):
    run, frame = simulated(tmp_path, ROCE, {"kind": "dns", "at": "s0003"})
    asked, answers = frame[frame["dst_port"] == 53], frame[frame["src_port"] == 53]
    assert len(asked) == len(answers) == 3 * 2  # its own rank asks itself
    pairs = run.truth("pairs").query("job == 'dns'")
    assert set(pairs["kind"]) == {"other"}
    assert len(pairs) == 2 * 3
    assert set(pairs["bytes"]) == {2 * 41, 2 * 57}


def test_scrapes_come_with_their_period(tmp_path):
    watch = {"kind": "monitoring", "every_s": 0.01, "at": "s0001", "page_bytes": 3000}
    _, frame = simulated(tmp_path, ROCE, watch)
    pages = frame[frame["src_port"] == 9100]
    assert set(pages["packets"]) == {3}
    assert sorted(pages["src"].unique()) == ["10.0.0.1", "10.0.2.1", "10.0.3.1"]
    end_ns = frame["end_ns"].max() - 1_767_225_600 * 10**9
    for _, of_one in frame[frame["dst_port"] == 9100].groupby("dst"):
        assert set(np.diff(of_one["first_ns"].sort_values())) == {10 * MS}
        assert len(of_one) == pytest.approx(end_ns / (10 * MS), abs=1)


def test_control_traffic_moves_neither_the_truth_nor_other_draws(tmp_path):
    loss = {"kind": "loss", "probability": 0.3}
    talk = [
        {"kind": "connections"}, {"kind": "rendezvous"}, {"kind": "dns", "at": "s0003"},
        {"kind": "monitoring", "every_s": 0.1},
    ]  # fmt: skip
    quiet, plain = simulated(tmp_path / "a", ROCE, loss)
    loud, frame = simulated(tmp_path / "b", ROCE, loss, *talk)
    trained = frame[frame["dst_port"] == 4791].reset_index(drop=True)
    pd.testing.assert_frame_equal(plain, trained, check_categorical=False)
    pd.testing.assert_frame_equal(quiet.truth("spans"), loud.truth("spans"))
    keys = ["job", "src", "dst", "kind", "bytes"]
    before = set(quiet.truth("pairs")[keys].itertuples(index=False, name=None))
    after = set(loud.truth("pairs")[keys].itertuples(index=False, name=None))
    assert before < after
    assert {kind for job, _, _, kind, _ in after - before if job != "a"} == {"other"}


def test_acknowledgements_make_pairs_of_the_kind_that_they_answer(tmp_path):
    acknowledged, frame = simulated(tmp_path, OVER_TCP, {"kind": "acknowledgements"})
    pairs = acknowledged.truth("pairs")
    couples = set(zip(pairs["src"], pairs["dst"], strict=True))
    assert couples == set(zip(frame["src"], frame["dst"], strict=True))
    assert couples == {(b, a) for a, b in couples}


def test_times_before_zero_are_written(tmp_path):
    frame = collected(tmp_path, effects(ROCE, {"kind": "connections"}), many(1))
    assert frame["start_ns"].min() == -MS
    assert EPOCH > MS


def test_every_server_pings_one_and_gets_an_answer(tmp_path):
    """IP 20, ICMP 8 and 56 bytes: 84, as Linux's ping sends; both packets once a period."""
    ping = {"kind": "pings", "every_s": 0.01, "ahead": 2}
    _, frame = simulated(tmp_path, ROCE, ping)
    pings = frame[frame["protocol"] == 1]
    assert set(zip(pings["bytes"], pings["payload"], pings["packets"], strict=True)) == {
        (84, 64, 1)
    }
    assert (pings[["src_port", "dst_port"]] == 0).all(axis=None)
    pairs = {("10.0.0.1", "10.0.2.1"), ("10.0.1.1", "10.0.3.1")}
    assert set(zip(pings["src"], pings["dst"], strict=True)) == pairs | {(b, a) for a, b in pairs}
    end_ns = frame["end_ns"].max() - 1_767_225_600 * 10**9
    each = pings.groupby(["src", "dst"]).size()  # requests of one server, and answers to the other
    assert (each - 2 * end_ns / (10 * MS)).abs().max() <= 2
