"""How trains of bursts are cut into records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import TRAIN
from prism_sim.collector import Collector
from prism_sim.collector.config import CollectorConfig
from prism_sim.draws import Draws
from prism_sim.scenario.cluster import Cluster

EPOCH = 10**18


@pytest.fixture
def collect(tmp_path):
    """Records (start, end, bytes, after the epoch) of trains on one route."""

    def run(gap_us, *trains):
        layout = Layout(Cluster(servers=2))
        router = Router(layout, Templates(), Draws(0))
        router.route(0, 8, "a", "dp")
        path = tmp_path / "flows.parquet"
        with Collector(CollectorConfig(idle_gap_us=gap_us), router, EPOCH, path) as collector:
            for train in trains:
                collector.observe(train)
        frame = pd.read_parquet(path)
        assert set(zip(frame["src"], frame["dst"], strict=True)) == {("10.0.0.1", "10.0.1.1")}
        times = frame[["start_ns", "end_ns"]] - EPOCH
        return list(zip(times["start_ns"], times["end_ns"], frame["bytes"], strict=True))

    return run


def train(start, burst, period, bursts, early=None):
    """A train; ``early`` is the number, begin and end of the bursts before it, if any."""
    trains = [(start, burst, period, bursts, 100, 0, False, early is not None, 0, 0)]
    if early is not None:
        count, begin, end = early
        each = (end - begin) / count
        trains.insert(0, (begin, each, each, count, 100, 0, False, False, 0, 0))
    return np.array(trains, TRAIN)


def test_waits_within_the_gap_stay_one_record(collect):
    assert collect(1, train(50, 2_000, 3_000, 3)) == [(50, 8_050, 300)]


def test_waits_beyond_the_gap_cut_burst_from_burst(collect):
    records = collect(1, train(50, 2_000, 3_001, 3))
    assert records == [(50, 2_050, 100), (3_051, 5_051, 100), (6_052, 8_052, 100)]


def test_early_bytes_join_the_first_record_within_the_gap(collect):
    assert collect(1, train(5_000, 2_000, 2_000, 2, early=(3, 0, 4_000))) == [(0, 9_000, 500)]


def test_early_bytes_are_a_record_of_their_own_beyond_the_gap(collect):
    records = collect(1, train(5_000, 2_000, 2_000, 2, early=(3, 0, 3_999)))
    assert records == [(0, 3_999, 300), (5_000, 9_000, 200)]


def test_early_bursts_and_waits_between_regular_ones(collect):
    records = collect(1, train(5_000, 1_000, 4_000, 2, early=(1, 3_500, 4_500)))
    assert records == [(3_500, 6_000, 200), (9_000, 10_000, 100)]


def test_a_message_with_a_change_of_pace_is_one_record_without_a_silence(collect):
    slow, fast = (
        (0, 4_000, 4_000, 2, 100, 0, False, False, 0, 0),
        (8_500, 1_000, 1_500, 3, 100, 0, False, True, 0, 0),
    )
    assert collect(1, np.array([slow, fast], TRAIN)) == [(0, 12_500, 500)]


def test_two_messages_in_a_row_are_two_records(collect):
    messages = [
        (0, 4_000, 4_000, 2, 100, 0, False, False, 0, 0),
        (8_000, 1_000, 1_000, 3, 100, 0, False, False, 0, 0),
    ]
    assert collect(1, np.array(messages, TRAIN)) == [(0, 8_000, 200), (8_000, 11_000, 300)]


def test_an_interrupted_collection_is_closed_without_open_records(tmp_path):
    router = Router(Layout(Cluster(servers=2)), Templates(), Draws(0))
    path = tmp_path / "flows.parquet"

    def interrupted():
        with Collector(CollectorConfig(), router, 0, path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pd.read_parquet(path)) == 0
