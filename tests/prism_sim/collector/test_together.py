"""Combined effects: records stay possible, and no effect changes the draws of another."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.pipeline import diagnose
from prism_sim.collector.config import ORDER
from records import collected, effects, many
from tiny import simulate_one

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


@settings(deadline=None, max_examples=25, derandomize=True)
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
