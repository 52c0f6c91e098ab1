"""Late records: how many arrive when, and that the table is in the order of arrival."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from prism_sim.collector import collecting
from records import collected, effects, many, rows

N = 20_000


def late(**fields):
    return {"kind": "lateness", "delay_ms": 0, "late": 0, "late_s": 0, **fields}


def test_waits_are_exponential(tmp_path):
    down = {"kind": "outages", "windows": [{"from_s": 1, "to_s": 2}]}  # all end by 0.2 s
    instant = [[(i, i, 4096, 0) for i in range(N)]]
    frame = collected(tmp_path, effects(late(delay_ms=1000), down), instant)
    lost = math.exp(-1) - math.exp(-2)
    assert abs(len(frame) / N - (1 - lost)) < 4 * (lost * (1 - lost) / N) ** 0.5


def test_only_a_share_is_late(tmp_path):
    down = {"kind": "outages", "windows": [{"from_s": 0.5, "to_s": 1e6}]}
    frame = collected(tmp_path, effects(late(late=0.25, late_s=1), down), many(N))
    lost = 0.25 * math.exp(-0.4)  # records end evenly within 0.2 s: 0.3 to 0.5 s are left
    assert len(frame) / N == pytest.approx(1 - lost, abs=0.015)


def test_nothing_is_lost_and_times_stay(tmp_path):
    plain = collected(tmp_path, {}, many(500))
    frame = collected(tmp_path, effects(late(late=0.3, late_s=0.001)), many(500))
    assert sorted(rows(frame)) == rows(plain)
    assert rows(frame) != rows(plain)


def test_late_records_come_after_younger_ones(tmp_path):
    frame = collected(tmp_path, effects(late(late=0.1, late_s=1)), many(2000))
    ends = frame["end_ns"].to_numpy()
    behind = ends < np.maximum.accumulate(ends)
    assert behind.mean() == pytest.approx(0.1, abs=0.03)  # those within the run's 20 ms are few


def test_pieces_are_written_in_the_order_of_arrival(tmp_path, monkeypatch):
    batches = [many(1000)[0][i : i + 20] for i in range(0, 1000, 20)]
    whole = collected(tmp_path, effects(late(delay_ms=1, late=0.2, late_s=0.002)), batches)
    monkeypatch.setattr(collecting, "PIECE", 50)
    pieces = collected(tmp_path, effects(late(delay_ms=1, late=0.2, late_s=0.002)), batches)
    pd.testing.assert_frame_equal(whole, pieces)


def test_no_other_draw_moves(tmp_path):
    loss = {"kind": "loss", "probability": 0.5}
    plain = collected(tmp_path, effects(loss), many(2000))
    frame = collected(tmp_path, effects(loss, late(late=0.5, late_s=1)), many(2000))
    assert sorted(rows(frame)) == rows(plain)
