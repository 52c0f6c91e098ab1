"""Effects one by one, and together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from llmprism.pipeline import diagnose
from prism_sim.collector.config import ORDER
from prism_sim.collector.config import CollectorConfig as Model
from prism_sim.toolkit import Draws
from records import MS, as_records, collected, effects, many, rows
from tiny import simulate_one


def merging(**fields):
    return {"idle_gap_us": 1000, "message_boundary": False, **fields}


def test_messages_merge_within_the_gap_and_across_batches(tmp_path):
    batches = [[(0, MS, 10, 0)], [(2 * MS, 3 * MS, 20, 0), (4 * MS + 1, 5 * MS, 40, 0)]]
    assert rows(collected(tmp_path, merging(), batches)) == [
        (0, 3 * MS, 30),
        (4 * MS + 1, 5 * MS, 40),
    ]


def test_queue_pairs_are_not_merged(tmp_path):
    batches = [[(0, 10, 5, 0), (0, 10, 5, 1)]]
    frame = collected(tmp_path, merging(), batches, lines=2)
    assert len(frame) == 2
    assert frame["src_port"].nunique() == 2


def test_the_active_timeout_shares_bytes_in_proportion_to_time(tmp_path):
    frame = collected(tmp_path, {"active_timeout_s": 0.004}, [[(0, 10 * MS, 1000, 0)]])
    assert rows(frame) == [(0, 4 * MS, 400), (4 * MS, 8 * MS, 400), (8 * MS, 10 * MS, 200)]
    assert pq.read_schema(tmp_path / "flows.parquet").metadata[b"active_timeout_ns"] == b"4000000"


def test_a_record_older_than_the_timeout_ends_with_its_last_packet(tmp_path):
    batches = [[(0, 1 * MS, 1, 0), (MS + 9, 2 * MS, 2, 0), (2 * MS + 500, 3 * MS, 4, 0)]]
    frame = collected(tmp_path, merging(active_timeout_s=0.002), batches)
    assert rows(frame) == [(0, 2 * MS, 3), (2 * MS + 500, 3 * MS, 4)]


flows = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(0, 20 * MS), st.integers(0, 10**6),
              st.integers(0, 1)), min_size=1, max_size=30,
)  # fmt: skip


@settings(max_examples=60)
@given(flows, st.integers(1, 5), st.sampled_from([None, 0.001, 0.007]), st.sampled_from([None, 1]))
def test_cutting_conserves_bytes(tmp_path_factory, flows, batches, timeout_s, entries):
    flows = [(start, start + length, size, route) for start, length, size, route in flows]
    model = merging(active_timeout_s=timeout_s, cache_entries=entries)
    parts = [flows[i::batches] for i in range(batches)]
    frame = collected(tmp_path_factory.mktemp("cut"), model, parts, lines=2)
    by_port = frame.groupby("src_port")["bytes"].sum()
    sent = [sum(size for *_, size, route in flows if route == r) for r in (0, 1)]
    assert sorted(by_port[by_port > 0]) == sorted(size for size in sent if size)
    assert (frame["end_ns"] >= frame["start_ns"]).all()


def test_headers_count_one_a_packet(tmp_path):
    effect = {"kind": "headers", "mtu_payload_bytes": 1448, "header_bytes": 52}
    frame = collected(tmp_path, {"effects": [effect]}, [[(0, 10, 131_072, 0)]])
    assert frame[["bytes", "payload", "packets"]].iloc[0].tolist() == [135_804, 131_072, 91]


def test_acknowledgements_return_on_the_reversed_tuple(tmp_path):
    effects = [
        {"kind": "acknowledgements", "every": 10},
        {"kind": "headers", "mtu_payload_bytes": 1000, "transport": "tcp"},
    ]
    frame = collected(tmp_path, {"effects": effects}, [[(0, 10, 25_000, 0)]])
    there, back = frame.iloc[0], frame.iloc[1]
    assert (back["bytes"], back["payload"], back["packets"]) == (3 * 52, 0, 3)
    assert (back["src"], back["dst"]) == (there["dst"], there["src"])
    assert (back["src_port"], back["dst_port"]) == (there["dst_port"], there["src_port"])
    assert back["start_ns"] == 4 * 500  # four links of 0.5 us
    with pytest.raises(ValidationError, match="add the effect headers"):
        Model.model_validate({"effects": effects[:1]})


def test_both_points_of_observation_see_every_record(tmp_path):
    effect = {"kind": "observation", "point": "both"}
    frame = collected(tmp_path, {"effects": [effect]}, [[(0, 10, 7, 0)]])
    assert rows(frame) == [(0, 10, 7), (2000, 2010, 7)]
    notes = pq.read_schema(tmp_path / "flows.parquet").metadata
    assert notes[b"observation_point"] == b"both"


def test_records_of_two_points_are_never_merged(tmp_path):
    effect = {"kind": "observation", "point": "both"}
    frame = collected(tmp_path, merging(effects=[effect]), [[(0, 10, 7, 0), (50, 60, 8, 0)]])
    assert rows(frame) == [(0, 60, 15), (2000, 2060, 15)]


def test_a_table_needs_an_exporter_that_knows_no_messages():
    with pytest.raises(ValidationError, match="there is no table that could be full"):
        Model.model_validate({"cache_entries": 4})


def test_silent_leaves_leave_no_record(tmp_path):
    effect = {"kind": "silent_switches", "switches": ["leaf000"]}
    assert len(collected(tmp_path, {"effects": [effect]}, many(5))) == 0


def test_sampling_is_unbiased_and_loses_records_without_a_sampled_packet(tmp_path):
    frame = collected(tmp_path, {"effects": [{"kind": "sampling", "one_in": 10}]}, many(20_000))
    missed = 0.9**10  # a record of ten packets
    assert len(frame) == pytest.approx(20_000 * (1 - missed), rel=0.02)
    assert frame["bytes"].sum() == pytest.approx(20_000 * 40_960, rel=0.02)
    assert set(frame["bytes"] % 40_960) == {0}
    within = frame["start_ns"] % 10_000
    assert within.min() >= 0
    assert (frame["end_ns"] % 10_000).max() <= 1000
    assert pq.read_schema(tmp_path / "flows.parquet").metadata[b"sampling"] == b"10"


def test_independent_loss_keeps_its_share_and_its_choice(tmp_path):
    effect = {"kind": "loss", "probability": 0.3}
    frame = collected(tmp_path, {"effects": [effect]}, many(20_000))
    assert len(frame) == pytest.approx(14_000, rel=0.02)
    clock = {"kind": "clocks", "offset_us": 5}
    again = collected(tmp_path, {"effects": [clock, effect]}, many(20_000))
    assert len(set(again["start_ns"] - frame["start_ns"])) == 1  # same records, one offset


def test_bad_times_lose_as_much_as_good_ones_by_default(tmp_path):
    effect = {"kind": "loss", "probability": 0.3, "mean_good_s": 0.001, "mean_bad_s": 0.1}
    frame = collected(tmp_path, {"effects": [effect]}, many(20_000))
    assert len(frame) == pytest.approx(14_000, rel=0.02)


def test_losses_in_bursts_are_neighbours(tmp_path):
    effect = {"kind": "loss", "burst_probability": 1, "mean_good_s": 0.003, "mean_bad_s": 0.001}
    frame = collected(tmp_path, {"effects": [effect]}, many(100_000))
    lost = np.ones(100_000, bool)
    lost[frame["start_ns"] // 10_000] = False
    assert lost.mean() == pytest.approx(0.25, rel=0.15)
    runs = np.diff(np.flatnonzero(np.diff(lost.astype(int)) == 1))
    assert runs.mean() == pytest.approx(400, rel=0.15)  # a cycle of 4 ms, a record every 10 us


def test_an_outage_loses_records_exported_in_its_window(tmp_path):
    effect = {"kind": "outages", "windows": [{"from_s": 2e-5, "to_s": 4e-5}]}
    frame = collected(tmp_path, {"effects": [effect]}, many(6))
    assert frame["start_ns"].tolist() == [0, 10_000, 40_000, 50_000]


def test_drift_grows_with_time(tmp_path):
    batch = [[(0, 0, 1, 0), (10**12, 10**12, 1, 0)]]
    frame = collected(
        tmp_path, {"effects": [{"kind": "clocks", "offset_us": 0, "drift_ppm": 50}]}, batch
    )
    normal = Draws(3).stream("clock", 0).standard_normal(2)[1]
    assert frame["start_ns"].tolist() == [0, 10**12 + round(normal * 50e-6 * 10**12)]


def test_granularity_cuts_times_off(tmp_path):
    effect = {"kind": "granularity", "unit_ns": MS}
    frame = collected(tmp_path, {"effects": [effect]}, [[(MS - 1, 2 * MS + 5, 1, 0)]])
    assert rows(frame) == [(0, 2 * MS, 1)]


def test_each_effect_once():
    effect = {"kind": "granularity", "unit_ns": 1}
    with pytest.raises(ValidationError, match="listed twice: granularity"):
        Model.model_validate({"effects": [effect, effect]})


def test_effects_change_records_and_never_the_truth(tmp_path):
    plain = simulate_one(tmp_path / "a", dp=4, placement="spread")
    effects = [{"kind": "loss", "probability": 0.5}, {"kind": "headers"}]
    lossy = simulate_one(tmp_path / "b", dp=4, placement="spread", collector={"effects": effects})
    pd.testing.assert_frame_equal(plain.truth("pairs"), lossy.truth("pairs"))
    pd.testing.assert_frame_equal(plain.truth("spans"), lossy.truth("spans"))
    assert len(pd.read_parquet(lossy.flows)) < len(pd.read_parquet(plain.flows))


def test_without_effects_records_are_the_plain_ones(tmp_path):
    batch = many(1000)[0]
    records = as_records(batch)
    frame = collected(tmp_path, {}, [batch[:300], batch[300:]])
    for name in ("start_ns", "end_ns", "bytes"):
        assert (frame[name] == records[name]).all()
    assert "packets" not in frame
    assert set(frame["dst_port"]) == {4791}


HEADERS = {"kind": "headers"}
EFFECTS = [
    HEADERS,
    {"kind": "acknowledgements"},
    {"kind": "waiting", "line_bytes": 262_144, "stall_every_ms": 5},
    {"kind": "connections", "mesh": True},
    {"kind": "rendezvous", "before_s": 1},
    {"kind": "dns", "at": "s0002"},
    {"kind": "monitoring", "every_s": 0.05},
    {"kind": "pings", "every_s": 0.05, "ahead": 2},
    {"kind": "observation", "point": "both"},
    {"kind": "retransmissions", "probability": 0.01},
    {"kind": "silent_switches", "switches": ["leaf001"]},
    {"kind": "nat", "servers": ["s0000", "s0003"], "address": "192.0.2.1"},
    {"kind": "moved_addresses", "moves": [{"address_of": "s0003", "to": "s0001", "at_s": 0.02}]},
    {"kind": "sampling", "one_in": 3},
    {"kind": "lateness", "late": 0.2, "late_s": 0.05},
    {"kind": "loss", "probability": 0.1, "burst_probability": 0.9, "mean_good_s": 0.02},
    {"kind": "outages", "windows": [{"from_s": 0.03, "to_s": 0.04}]},
    {"kind": "clocks", "offset_us": 100, "drift_ppm": 50},
    {"kind": "granularity", "unit_ns": 1000},
    {"kind": "paths", "unknown_hop": 0.1, "truncated": 0.1, "missing": 0.1},
]
CUTS = st.sampled_from(
    [
        {},
        {"active_timeout_s": 0.005},
        {"message_boundary": False, "idle_gap_us": 2000, "cache_entries": 3},
    ]
)
FABRIC = {"kind": "tor", "leaf_ports": 1, "spines": 2}
HARMLESS = [
    effect
    for effect in EFFECTS
    if effect["kind"]
    in {"acknowledgements", "connections", "lateness", "clocks", "granularity", "paths"}
]
"""Those that neither take nor resize records."""


def test_every_effect_is_tried():
    assert [effect["kind"] for effect in EFFECTS] == [
        effect.model_fields["kind"].default for effect in ORDER
    ]


@settings(max_examples=25)
@given(st.sets(st.sampled_from(range(1, len(EFFECTS)))), CUTS)
def test_records_stay_possible_and_are_taken(tmp_path_factory, chosen, cuts):
    run = simulate_one(
        tmp_path_factory.mktemp("together"), dp=2, pp=2, steps=3,
        cluster={"gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC},
        collector={**cuts, "effects": [HEADERS, *(EFFECTS[i] for i in sorted(chosen))]},
    )  # fmt: skip
    frame = pd.read_parquet(run.flows)
    assert (frame["end_ns"] >= frame["start_ns"]).all()
    assert (frame[["bytes", "payload", "packets"]] >= 0).all(axis=None)
    assert (frame["bytes"] >= frame["payload"]).all()
    ports = frame[["src_port", "dst_port"]]
    is_ping = frame["protocol"] == 1
    assert ports[~is_ping].stack().between(1, 65_535).all()
    assert (ports[is_ping] == 0).all(axis=None)
    intake = diagnose(run.flows, run.topology).intake
    assert intake.rows == len(frame) == intake.kept + sum(intake.set_aside.values())
    foreign = frame[["src", "dst"]].isin(["192.0.2.1", "10.255.255.53"]).any(axis=1)
    moved = frame["src"].astype(str) == frame["dst"].astype(str)  # onto the other end's address
    assert sum(intake.set_aside.values()) == (foreign | moved).sum()


@pytest.mark.parametrize("effect", HARMLESS, ids=lambda effect: effect["kind"])
def test_no_effect_moves_which_records_are_lost(tmp_path, effect):
    loss = {"kind": "loss", "probability": 0.5}
    batch = [(start, end, 4096 + i, 0) for i, (start, end, *_) in enumerate(many(400)[0])]
    plain = collected(tmp_path, effects(HEADERS, loss), [batch])
    frame = collected(tmp_path, effects(HEADERS, loss, effect), [batch])
    data_sizes = set(range(4096, 4096 + 400))
    assert set(plain["payload"]) == set(frame["payload"]) & data_sizes
    assert 150 < len(plain) < 250
