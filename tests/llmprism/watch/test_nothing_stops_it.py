"""Nothing that comes in stops a monitor: impossible times, failures of a method, other states."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism import methods
from llmprism.pipeline import diagnose
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state_folder import StateFolder
from prism_common.errors import UserError
from watching import SETTINGS, Watched, pieces, put

DAY_NS = 86_400 * SECOND_NS
WRAPPED_NS = 2**32 * 1_000_000  # a counter of ms that passed zero
NOW_NS = time.time_ns()


def recent(flows: pd.DataFrame) -> pd.DataFrame:
    """The same records, the last of which has just ended."""
    shift_ns = NOW_NS - int(flows["end_ns"].max()) - SECOND_NS
    return flows.assign(start_ns=flows["start_ns"] + shift_ns, end_ns=flows["end_ns"] + shift_ns)


def changed(flows: pd.DataFrame, row: int, **values: int) -> pd.DataFrame:
    """The records with other times in one of them."""
    found = flows.reset_index(drop=True).copy()
    for name, value in values.items():
        found.loc[row, name] = value
    return found


@pytest.mark.parametrize(
    ("fate", "times"),
    [
        ("ahead", {"end_ns": NOW_NS + WRAPPED_NS}),
        ("set_aside", {"start_ns": NOW_NS + WRAPPED_NS, "end_ns": NOW_NS + WRAPPED_NS}),
        ("set_aside", {"start_ns": NOW_NS - WRAPPED_NS}),
    ],
)
def test_one_record_with_an_impossible_time_changes_nothing(
    world: Any, watched: Watched, fate: str, times: dict[str, int]
) -> None:
    flows = recent(world.flows)
    put(changed(flows, 100, **times), watched.incoming, "0.parquet")
    state = watched.round()
    assert (state.fates["kept"], state.fates[fate]) == (len(flows) - 1, 1)
    assert state.watermark_ns == flows["end_ns"].drop(flows.index[100]).max()
    assert state.windows < 20
    assert watched.exits == [0]


def test_an_empty_stretch_is_jumped_over(world: Any, watched: Watched) -> None:
    early = world.flows.head(20)
    early = early.assign(
        start_ns=early["start_ns"] - 300 * DAY_NS, end_ns=early["end_ns"] - 300 * DAY_NS
    )
    put(pd.concat([early, world.flows.head(600)]), watched.incoming, "0.parquet")
    state = watched.round()
    assert state.windows < 20
    assert state.cursor_ns is not None
    assert state.cursor_ns > early["end_ns"].max() + 299 * DAY_NS


def test_it_ends_between_windows_if_asked_to(world: Any, watched: Watched) -> None:
    watched.settings = replace(SETTINGS, window_ns=4 * SECOND_NS)
    put(world.flows, watched.incoming, "0.parquet")
    asked = iter([False, False])
    state = watched.watch_until(lambda: False, lambda: next(asked, True))
    assert state.windows <= 2
    assert state.cursor_ns is not None
    assert state.watermark_ns is not None
    assert state.cursor_ns < state.watermark_ns
    later = watched.round()
    assert later.windows > 1
    assert later.watermark_ns == state.watermark_ns


@pytest.fixture
def failing() -> str:
    """The name of a method that fails."""

    def divide(*_: Any, **__: Any) -> Any:
        return 1 // np.zeros(1, int).tolist()[0]

    methods.register("fails")(divide)
    return "fails"


def test_a_method_that_fails_is_an_alert_and_keeps_the_window_that_shows_it(
    world: Any, watched: Watched, failing: str
) -> None:
    for number, records in enumerate(pieces(world.flows, 3)):
        put(records, watched.incoming, f"{number}.parquet")
        watched.settings = replace(SETTINGS, method=failing if number else "prism")
        state = watched.round()
    assert state.failures["failed"] >= 2
    assert state.cursor_ns is not None
    assert state.cursor_ns > world.flows["end_ns"].max() - 3 * SECOND_NS
    assert ("opened", "NoDiagnosis") in watched.happened()
    assert watched.exits[1:] == [4, 4]
    (sample,) = (watched.folder / "state" / "samples").iterdir()
    assert "ZeroDivisionError" in (sample / "error.txt").read_text()
    assert diagnose(sample / "flows.parquet", sample / "topology.json").jobs["job"].nunique() == 1
    watched.settings = SETTINGS
    last = world.flows.tail(1)
    put(last.assign(end_ns=last["end_ns"] + 3 * SECOND_NS), watched.incoming, "3.parquet")
    watched.round()
    assert watched.happened()[-1] == ("resolved", "NoDiagnosis")


def test_a_folder_that_is_gone_is_an_alert_and_no_file_is_read_twice(
    world: Any, watched: Watched
) -> None:
    put(world.flows.head(50), watched.incoming, "0.parquet")
    away = watched.folder / "away"
    moves = iter([(watched.incoming, away), (away, watched.incoming)])

    def move() -> None:
        one = next(moves, None)
        if one is not None:
            shutil.move(*one)

    state = watched.round(rounds=4, between=move)
    assert watched.happened() == [("opened", "SourceUnreadable"), ("resolved", "SourceUnreadable")]
    assert state.fates["kept"] == 50


def test_a_state_of_another_version_or_with_unknown_fields_is_refused(tmp_path: Path) -> None:
    StateFolder(tmp_path).close()
    for content, what in (
        ({"version": 10**6}, "later version"),
        ({"commit": 1, "mood": "calm"}, "mood"),
        ({"jobs": [{"name": "job-0", "addresses": [], "servers": [], "mood": "calm"}]}, "mood"),
    ):
        (tmp_path / "state.json").write_text(json.dumps(content))
        with pytest.raises(UserError, match=what):
            StateFolder(tmp_path)


def test_a_state_of_version_3_goes_on(world: Any, watched: Watched) -> None:
    """Its parts had stretches, its exporters knew less, and its files had no digests."""
    first, rest = pieces(world.flows, 2)
    put(first, watched.incoming, "0.parquet")
    watched.round()
    path = watched.folder / "state" / "state.json"
    content = json.loads(path.read_text()) | {"version": 3}
    for part in content["parts"]:
        part["stretches"] = [[part["first_ns"], part["last_ns"]]]
    for exporter in content["exporters"].values():
        del exporter["until_ns"], exporter["disorder_ns"], exporter["ahead_ns"]
    content["position"] = {name: stamp[:2] for name, stamp in content["position"].items()}
    path.write_text(json.dumps(content))
    put(rest, watched.incoming, "1.parquet")
    assert watched.round().fates["kept"] == len(world.flows)
