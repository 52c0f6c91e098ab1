"""Packets sent again, against the binomial law."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from records import collected, effects, many

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
