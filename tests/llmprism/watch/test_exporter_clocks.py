"""Each exporter's clock and activity: one that is wrong or silent misleads nobody unseen."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from llmprism.ingest.records import SCHEMA
from llmprism.watch import exporters
from llmprism.watch.exporters import Arrival, Coverage
from llmprism.watch.health import Health
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.state import State
from watching import SETTINGS, Watched, put

S = SECOND_NS
NOW_NS = 1_700_000_000 * S
SETTING = Settings(window_ns=120 * S)


def arrive(state: State, second: int, ahead_s: dict[str, int]) -> None:
    """Records of each exporter come, whose clocks are so far ahead."""
    now_ns = NOW_NS + second * S
    came = {name: Arrival(*3 * (now_ns + s * S,), 10) for name, s in ahead_s.items()}
    exporters.note(state, came, now_ns)
    exporters.count_disagreements(state, came, exporters.clocks(state.exporters, SETTING, now_ns))


def wrong(state: State, second: int) -> set[str]:
    """The alerts about exporters."""
    return {*exporters.problems(state, SETTING, NOW_NS + second * S, NOW_NS)}


def test_the_clock_of_one_of_four_that_jumps_is_an_alert() -> None:
    state, calm = State(), dict.fromkeys("abcd", -2)
    for second in range(10):
        arrive(state, second, calm)
    assert wrong(state, 10) == set()
    for second in range(10, 14):
        arrive(state, second, calm | {"c": 540})
    assert wrong(state, 14) == {"ExporterClock/c"}
    found = exporters.clocks(state.exporters, SETTING, NOW_NS + 14 * S)
    assert exporters.out_of_step(state, found) == {"c"}
    arrive(state, 14, calm)
    assert wrong(state, 15) == set()


@pytest.mark.parametrize(
    ("ahead_s", "name"),
    [({"a": -1, "b": -2, "c": -540}, "c"), ({"a": -1, "b": 540}, "b")],
    ids=["a clock that jumps back", "of two the one that agrees with this machine is right"],
)
def test_a_clock_that_differs_from_the_others_is_an_alert(
    ahead_s: dict[str, int], name: str
) -> None:
    state = State()
    for second in range(5):
        arrive(state, second, ahead_s)
    assert wrong(state, 5) == {f"ExporterClock/{name}"}


def test_records_that_are_ahead_of_this_machine_are_blindness() -> None:
    state = State(watermark_ns=time.time_ns() + 3_600 * S)
    reasons = Health().reasons(state, Settings(), is_end=False)
    assert "ahead of this machine" in reasons["MonitorLags"]


def test_one_that_sends_nothing_while_others_do_is_an_alert_until_it_sends() -> None:
    state = State()
    for second in range(0, 600, 2):
        seldom = {"c": -1} if second % 60 == 0 else {}
        arrive(state, second, {"a": -1} | seldom | ({"b": -1} if second < 20 else {}))
    assert wrong(state, 600) == {"ExporterSilent/b"}
    arrive(state, 600, {"a": -1, "b": -1})
    assert wrong(state, 601) == set()


def test_addresses_that_only_a_silent_exporter_records_are_unseen() -> None:
    rows = pd.DataFrame({"src": ["x", "y", "y"], "observer": ["a", "a", "b"]})
    table = pa.Table.from_pandas(rows.reindex(columns=SCHEMA.names), SCHEMA, preserve_index=False)
    coverage = Coverage()
    coverage.add(table)
    assert coverage.unseen(frozenset({"a"})) == {"x"}
    assert coverage.unseen(frozenset({"b"})) == set()


def test_one_exporter_that_is_ahead_does_not_move_the_window(world: Any, watched: Watched) -> None:
    watched.settings = replace(SETTINGS, window_ns=20 * S)
    flows = world.flows
    names = sorted(flows["src"].astype(str).unique())
    leaf = flows["src"].astype(str).map(lambda one: f"leaf{names.index(one) % 4}")
    since_ns = flows["end_ns"] - flows["end_ns"].min()
    piece = (since_ns * 6 / flows["end_ns"].diff().sum()).astype(int)
    for number in range(6):
        for name in sorted(leaf.unique()):
            own = flows[(leaf == name) & (piece == number)]
            if number >= 3 and name == "leaf1":
                own = own.assign(start_ns=own["start_ns"] + 540 * S, end_ns=own["end_ns"] + 540 * S)
            if len(own):
                put(own, watched.incoming / name, f"{number}.parquet")
        state = watched.round()
    assert ("opened", "ExporterClock") in watched.happened()
    assert {one for one, blind in state.blind.items()} == {"ExporterClock/leaf1"}
    right = flows[(leaf != "leaf1") | (piece < 3)]
    last_ns = right["end_ns"].max()
    assert state.watermark_ns is not None
    assert last_ns - S < state.watermark_ns <= last_ns
    assert state.fates["out_of_step"] > 0
    assert state.fates.get("late", 0) == 0
