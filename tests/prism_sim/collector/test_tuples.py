"""Numbers of connections, and trains of records."""

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
from prism_sim.collector.tuples import TCP, FiveTuple, Tuples
from prism_sim.toolkit import Cluster, Draws, Run, Scenario, simulate

FABRIC = {"kind": "tor", "leaf_ports": 1, "spines": 4, "uplinks": 4}
KINDS = [f"kind {i}" for i in range(40)]
"""Enough connections that some hash elsewhere, whatever they hash by."""


LAST_WAY = {"leaf000|spine03|leaf001", "leaf001|spine03|leaf000"}
"""What is left of them without the leaf's first three uplinks."""


def two_servers():
    """Two servers under different leaves, with four paths between them."""
    small = {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC}
    return Router(Layout(Cluster.model_validate(small)), Templates(), Draws(0))


@pytest.fixture
def router():
    return two_servers()


def opened(router, src, dst):
    """Routes of all kinds from ``src`` to ``dst``."""
    return np.array([router.route(src, dst, "a", kind) for kind in KINDS], np.int32)


@pytest.mark.parametrize("answered_first", [False, True])
def test_bytes_over_tcp_take_their_route_though_an_answer_came_first(router, answered_first):
    tuples = Tuples(router, Draws(3), {"a": "tcp"})
    there = tuples.of_routes(opened(router, 0, 1))
    if answered_first:
        answers = tuples.reverse(there)
        tuples.column("path"), tuples.column("routed")  # as they are read for those answers
    routes = opened(router, 1, 0)
    back = tuples.of_routes(routes)
    assert (tuples.column("path")[back] == np.array(router.routes.path)[routes]).all()
    assert (tuples.column("routed")[back] == 1).all()
    assert (tuples.reverse(there) == back).all()
    if answered_first:
        assert (answers == back).all()


def control_traffic(tuples):
    """5-tuples that are not routes of a job."""
    added = [tuples.add(FiveTuple(1, 0, 50_000 + i, 29_500, TCP)) for i in range(40)]
    return np.array(added, np.int32)


def everything(tuples, routes):
    """The 5-tuples of ``routes``, of answers to them, and others."""
    there = tuples.of_routes(routes)
    return np.concatenate([there, tuples.reverse(there), control_traffic(tuples)])


@pytest.mark.parametrize("known_before", [False, True])
def test_only_connections_that_begin_after_an_uplink_failed_change_their_path(known_before):
    healthy, failed_leaf = two_servers(), two_servers()
    tuples, routes = Tuples(failed_leaf, Draws(3)), opened(failed_leaf, 0, 1)
    was = Tuples(healthy, Draws(3))
    if known_before:
        everything(tuples, routes)
    tuples.keep_paths(10)
    tuples.reroute(failed_leaf.fail(0, [0, 1, 2]))
    every = everything(tuples, routes)
    same = everything(was, opened(healthy, 0, 1))
    expected = was.column("path")[same]
    before = tuples.path_at(every, np.full(len(every), 9))
    named = [failed_leaf.paths[number] for number in before]
    assert named == [healthy.paths[number] for number in expected]
    assert len(set(named)) == 2 * 4
    after = tuples.path_at(every, np.full(len(every), 10))
    assert {failed_leaf.paths[number] for number in after} == LAST_WAY
    tuples.keep_paths(20)
    tuples.reroute(failed_leaf.repair(0, [0, 1, 2]))
    times = np.array([9, 19, 20])
    for number, original in zip(every, before, strict=True):
        one, failed, repaired = tuples.path_at(np.repeat(number, 3), times)
        assert one == repaired == original
        assert failed_leaf.paths[failed] in LAST_WAY


def test_records_name_the_way_on_which_they_began(tmp_path):
    """Long flows are active when uplinks fail; they keep their links to the end."""
    frames = []
    for faults in ([], [{"kind": "failed_uplinks", "leaf": "leaf000", "failed": 3, "from_s": 1}]):
        scenario = {
            "name": "test",
            "duration_s": 6,
            "cluster": {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1, "nic_gbps": 10,
                        "fabric": FABRIC},
            "jobs": [],
            "background": [{"name": f"b{i}", "flows_per_s": 1, "median_bytes": 3e8, "sigma": 0}
                           for i in range(8)],
            "faults": faults,
            "collector": {"effects": [{"kind": "headers"}, {"kind": "acknowledgements"},
                                      {"kind": "monitoring", "at": "s0001", "every_s": 0.1}]},
        }  # fmt: skip
        run = Run(tmp_path / str(len(faults)))
        simulate(Scenario.model_validate(scenario), run)
        frame = pd.read_parquet(run.flows).astype({"path": str})
        frame[["start_ns", "end_ns"]] -= 1_767_225_600 * 10**9
        frames.append(frame)
    ends = ["src_port", "dst_port", "protocol"]
    way, failed_leaf = frames[0].groupby(ends)["path"].first(), frames[1]
    early = failed_leaf[failed_leaf["start_ns"] < 10**9]
    assert (early["path"].to_numpy() == way[list(early[ends].itertuples(index=False))]).all()
    assert (early["end_ns"] > 10**9).any()
    late = failed_leaf[failed_leaf["start_ns"] >= 10**9]
    assert set(late["path"]) == LAST_WAY
    assert {9100, 4791} < set(late["dst_port"])  # control traffic and answers among them


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
    return trains


@pytest.mark.parametrize(
    ("trains", "records"),
    [
        (train(50, 2_000, 3_000, 3), [(50, 8_050, 300)]),
        (train(50, 2_000, 3_001, 3), [(50, 2_050, 100), (3_051, 5_051, 100), (6_052, 8_052, 100)]),
        (train(5_000, 2_000, 2_000, 2, early=(3, 0, 4_000)), [(0, 9_000, 500)]),
        (train(5_000, 2_000, 2_000, 2, early=(3, 0, 3_999)),
         [(0, 3_999, 300), (5_000, 9_000, 200)]),
        (train(5_000, 1_000, 4_000, 2, early=(1, 3_500, 4_500)),
         [(3_500, 6_000, 200), (9_000, 10_000, 100)]),
        ([(0, 4_000, 4_000, 2, 100, 0, False, False, 0, 0),
          (8_500, 1_000, 1_500, 3, 100, 0, False, True, 0, 0)], [(0, 12_500, 500)]),
        ([(0, 4_000, 4_000, 2, 100, 0, False, False, 0, 0),
          (8_000, 1_000, 1_000, 3, 100, 0, False, False, 0, 0)],
         [(0, 8_000, 200), (8_000, 11_000, 300)]),
    ],
    ids=["waits within the gap", "waits beyond it", "early bytes join", "early bytes apart",
         "early bursts", "a change of pace", "two messages"],
)  # fmt: skip
def test_a_silence_of_a_train_beyond_the_gap_ends_a_record(collect, trains, records):
    assert collect(1, np.array(trains, TRAIN)) == records


def test_an_interrupted_collection_is_closed_without_open_records(tmp_path):
    router = Router(Layout(Cluster(servers=2)), Templates(), Draws(0))
    path = tmp_path / "flows.parquet"

    def interrupted():
        with Collector(CollectorConfig(), router, 0, path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pd.read_parquet(path)) == 0
