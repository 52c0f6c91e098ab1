"""Memory does not grow with the run, and smaller buffers change nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import flows
from prism_sim.collector import Collector, collecting
from prism_sim.collector.config import ORDER
from prism_sim.collector.config import CollectorConfig as Model
from prism_sim.collector.cutting import ENTRY, NO_LIMIT, cut_rows
from prism_sim.collector.rows import ROW
from prism_sim.toolkit import Cluster, Draws
from records import FABRIC, MS, as_records, collected, effects, rows
from tiny import simulate_one

SECOND = 1_000_000_000
HEADERS = {"kind": "headers", "mtu_payload_bytes": 1448, "transport": "tcp"}
GIVEN: dict[str, dict[str, Any]] = {
    "acknowledgements": {"delay_ms": 40, "one_by_one": True},
    "silent_switches": {"switches": ["leaf001"]},
    "nat": {"servers": ["s0000"], "address": "10.9.9.9"},
    "moved_addresses": {"moves": [{"address_of": "s0000", "to": "s0001", "at_s": 5}]},
    "outages": {"windows": [{"from_s": 3, "to_s": 4}]},
    "waiting": {"stall_every_ms": 100},
    "lateness": {"late": 0.1, "late_s": 0.5},
    "sampling": {"one_in": 2},
    "monitoring": {"every_s": 1},
    "pings": {"every_s": 1},
}
CUTS: dict[str, dict[str, Any]] = {
    "messages": {},
    "switch": {"message_boundary": False, "active_timeout_s": 2},
    "small table": {"message_boundary": False, "cache_entries": 2},
}
SMALL = {"layers": 4, "hidden": 64, "heads": 4, "vocab": 500, "sequence_length": 64}
KINDS = [effect.model_fields["kind"].default for effect in ORDER if effect is not ORDER[0]]


def most_held(folder, model: dict[str, Any], seconds: int) -> int:
    """Largest number of buffered rows while two hosts exchange eight messages per second."""
    small = {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC}
    router = Router(Layout(Cluster.model_validate(small)), Templates(), Draws(0))
    routes = [router.route(0, 1, "a", "dp"), router.route(1, 0, "a", "dp")]
    folder.mkdir()
    most = 0
    path = folder / "flows.parquet"
    with Collector(Model.model_validate(model), router, 0, path, Draws(3)) as collector:
        for at_ns in range(0, seconds * SECOND, SECOND):
            batch = [
                (at_ns + i * 125 * MS, at_ns + i * 125 * MS + size, size, routes[i % 2])
                for i, size in enumerate((48, 20_000, 90_000, 48) * 2)
            ]
            collector.observe(flows(as_records(batch)))
            collector.advance(at_ns + SECOND)
            most = max(most, collector.held_rows)
    return most


def check_bounded(folder, monkeypatch, model: dict[str, Any]) -> None:
    monkeypatch.setattr(collecting, "PIECE", 20)
    short, long = most_held(folder / "a", model, 40), most_held(folder / "b", model, 120)
    assert 0 < long <= 1.05 * short + 5  # late records vary a little


@pytest.mark.parametrize("kind", KINDS)
def test_buffered_rows_do_not_grow_with_the_run(tmp_path, monkeypatch, kind):
    listed = effects(HEADERS, {"kind": kind, **GIVEN.get(kind, {})})
    check_bounded(tmp_path, monkeypatch, CUTS["switch"] | listed)


def test_nor_do_those_of_queues_that_sockets_refill(tmp_path, monkeypatch):
    listed = effects(HEADERS, {"kind": "waiting", "refills": True, "line_bytes": 50_000})
    check_bounded(tmp_path, monkeypatch, CUTS["switch"] | listed)


@pytest.mark.parametrize("cut", CUTS)
def test_nor_with_everything_at_once(tmp_path, monkeypatch, cut):
    listed = [{"kind": kind, **GIVEN.get(kind, {})} for kind in KINDS]
    check_bounded(tmp_path, monkeypatch, CUTS[cut] | effects(HEADERS, *listed))


def gloo_run(folder):
    """Two stages of two replicas over sockets, with everything that needs rows in order."""
    listed = (
        HEADERS,
        {"kind": "acknowledgements", "every": 1, "one_by_one": True, "delay_ms": 40},
        {"kind": "waiting", "stall_every_ms": 20},
        {"kind": "connections", "lead_ms": 300, "mesh": True},
        {"kind": "rendezvous"},
    )
    run = simulate_one(
        folder, dp=2, pp=2, steps=30, zero_stage=0, library={"handling_ms": 0.5}, model=SMALL,
        step_overhead_ms=100, step_overhead_jitter=0.2, start_s=1,
        cluster={"servers": 4, "gpus_per_server": 1, "nics_per_server": 1, "nic_gbps": 10},
        collector={"idle_gap_us": 1000, "message_boundary": False, **effects(*listed)},
    )  # fmt: skip
    frame = pd.read_parquet(run.flows).astype({"src": str, "dst": str, "path": str})
    return frame.sort_values(list(frame.columns), ignore_index=True), run.truth("pairs")


def test_the_table_is_that_of_the_whole_run_seen_at_once(tmp_path, monkeypatch):
    """Buffered for half a second, for a tenth, or to the end: longer than any transfer."""
    monkeypatch.setattr(collecting, "STRIDE_NS", 10**18)
    whole, pairs = gloo_run(tmp_path / "whole")
    monkeypatch.setattr(collecting, "STRIDE_NS", SECOND // 10)
    monkeypatch.setattr(collecting, "HORIZON_NS", SECOND // 2)
    streamed, pairs_streamed = gloo_run(tmp_path / "streamed")
    assert len(whole) > 500
    pd.testing.assert_frame_equal(whole, streamed)
    pd.testing.assert_frame_equal(pairs, pairs_streamed)


def evicted_by_hand(batch, limit: int, gap_ns: int) -> list[tuple[int, int, int]]:
    """Records of one switch whose table has room for ``limit``, computed in a simple way."""
    table: dict[int, list[int]] = {}
    out = []
    for start, end, size, line in sorted(batch, key=lambda row: (row[0], row[3], row[1])):
        if line in table and start - table[line][1] > gap_ns:
            out.append(tuple(table.pop(line)))
        if line not in table:
            if len(table) == limit:
                out.append(tuple(table.pop(min(table, key=lambda key: (table[key][0], key)))))
            table[line] = [start, start, 0]
        record = table[line]
        record[1], record[2] = max(record[1], end), record[2] + size
    return sorted([*out, *map(tuple, table.values())])


transfers = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(1, 100), st.integers(0, 5)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60)
@given(transfers, st.integers(1, 4))
def test_a_full_table_evicts_its_oldest_record(tmp_path_factory, transfers, limit):
    batch = [(at * MS, (at + length) * MS, size, line) for at, length, size, line in transfers]
    model = {"idle_gap_us": 5000, "message_boundary": False, "cache_entries": limit}
    frame = collected(tmp_path_factory.mktemp("table"), model, [batch], lines=6)
    assert sorted(rows(frame)) == evicted_by_hand(batch, limit, 5 * MS)


def test_eviction_does_not_scan_the_table():
    """100,000 evictions from a table of as many: a scan each would look at 10^10 records."""
    count = 200_000
    waiting = np.zeros(count, ROW)
    waiting["start_ns"] = waiting["end_ns"] = np.arange(count)
    waiting["bytes"] = 1
    state, is_open = np.zeros(count, ROW), np.zeros(count, np.bool_)
    load, key = np.zeros(1, np.int64), np.arange(count)
    out, heap = np.empty(count, ROW), np.empty(2 * count, ENTRY)

    def cut(some):
        return cut_rows(
            waiting[:some], key[:some], state, is_open, load, NO_LIMIT, NO_LIMIT, count // 2, True,
            out, 0, heap, 0,
        )  # fmt: skip

    cut(1)  # compiled
    is_open[:], load[:] = False, 0
    begun = time.perf_counter()
    evicted = cut(count)
    assert time.perf_counter() - begun < 5
    assert evicted == count // 2
    assert (out["start_ns"][:evicted] == np.arange(evicted)).all()
