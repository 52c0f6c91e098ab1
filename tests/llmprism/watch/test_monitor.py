"""A monitor finds what one diagnosis of all records finds, whatever happens to it."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.pipeline import diagnose
from llmprism.watch.listening import Listener
from llmprism.watch.matching import alert_name
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state import State
from llmprism.watch.state_folder import StateFolder
from prism_common.errors import UserError
from processes import started, wait_until
from small_jobs import join_worlds, make_world
from watching import LLMPRISM, SETTINGS, Watched, events_in, pieces, put

DAY_NS = 86_400 * SECOND_NS


def test_findings_and_numbers_of_steps_are_those_of_all_records(
    world: Any, watched: Watched, tmp_path: Path
) -> None:
    for number, records in enumerate(pieces(world.flows, 5)):
        put(records, watched.incoming, f"{number}.parquet")
        state = watched.round()
    whole = diagnose(*world.save(tmp_path / "whole"))
    finding = whole.findings.iloc[0]
    assert watched.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]
    first, *_, last = watched.events
    assert first["labels"] == last["labels"]
    assert last["labels"]["culprit"] == finding["culprit"]
    assert last["confidence"] == pytest.approx(finding["confidence"], abs=0.05)
    assert (last["first_step"], last["last_step"]) == (14, 17)
    assert all(one in last["annotations"]["summary"] for one in ("step 14", "step 17"))
    assert len(whole.findings) == 1
    assert [job.name for job in state.jobs] == ["job-0"]
    ends = whole.steps.groupby("step")["end_ns"].median()
    period = ends.diff().median()
    for step, end_ns in state.jobs[0].ends_ns.items():
        assert abs(ends[step] - end_ns) < 0.1 * period
    assert state.fates["kept"] == len(world.flows)
    assert set(watched.exits) == {0}


def _incidents(watched: Watched) -> set[tuple[Any, ...]]:
    """Cause, culprit and steps of each incident, as its last event has them."""
    last = {one["incident"]: one for one in watched.events}
    return {
        (one["labels"]["alertname"], one["labels"]["culprit"], one["first_step"], one["last_step"])
        for one in last.values()
    }


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_no_record_and_repeats_no_alert(
    world: Any, watched: Watched, tmp_path: Path
) -> None:
    state = watched.folder / "state"
    command = [*LLMPRISM, "watch", str(watched.incoming), "--topology", str(watched.topology)]
    command += ["--state", str(state), "--window", "10s", "--every", "2s", "--quiet-period", "2s"]
    command += ["--lag-bound", "2000000000s"]
    moments = [
        lambda: any((state / "records").glob("*.parquet")),  # before the commit, or after it
        lambda: len(events_in(state)) >= 1,
        lambda: len(events_in(state)) >= 2,
    ]
    for number, (records, happened) in enumerate(zip(pieces(world.flows, 3), moments, strict=True)):
        put(records, watched.incoming, f"{number}.parquet")
        with started(command, tmp_path) as process:
            wait_until(happened, 60)
            os.kill(process.pid, signal.SIGKILL)
    last = watched.round()
    assert last.fates["kept"] == len(world.flows)
    assert [one["number"] for one in watched.events] == list(range(1, len(watched.events) + 1))
    assert watched.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]


def test_a_disk_that_is_full_for_a_while_costs_nothing(world: Any, watched: Watched) -> None:
    records = list(pieces(world.flows, 2))
    for number, part in enumerate(records):
        put(part, watched.incoming, f"{number}.parquet")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        assert watched.round().fates == {}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert watched.round().fates["kept"] == len(world.flows)
    assert watched.exits == [1, 0]


@pytest.mark.slow
def test_after_a_day_without_records_jobs_keep_their_names(world: Any, watched: Watched) -> None:
    put(world.flows, watched.incoming, "before.parquet")
    before = watched.round()
    times = {name: world.flows[name] + DAY_NS for name in ("start_ns", "end_ns")}
    put(world.flows.assign(**times), watched.incoming, "after.parquet")
    after = watched.round()
    assert [job.name for job in after.jobs] == [job.name for job in before.jobs] == ["job-0"]
    assert after.jobs[0].last_step > before.jobs[0].last_step
    assert watched.happened() == 2 * [("opened", "SlowGpu"), ("resolved", "SlowGpu")]


def test_records_of_a_clock_that_jumps_are_counted_and_move_nothing(
    world: Any, watched: Watched
) -> None:
    ahead_ns = 3650 * DAY_NS
    first, second = pieces(world.flows, 2)
    put(first, watched.incoming, "0.parquet")
    watched.round()
    times = {name: second[name] + ahead_ns for name in ("start_ns", "end_ns")}
    put(second.assign(**times), watched.incoming, "1.parquet")
    jumped = watched.round()
    assert jumped.fates["ahead"] == len(second)
    assert watched.exits[-1] == 6
    assert watched.happened()[-1] == ("opened", "RecordsRefused")
    times = {name: second[name] - DAY_NS for name in ("start_ns", "end_ns")}
    put(second.assign(**times), watched.incoming, "2.parquet")
    assert watched.round().fates["late"] == len(second)
    put(second, watched.incoming, "3.parquet")
    state = watched.round()
    assert state.fates["kept"] == len(world.flows)
    assert ("resolved", "RecordsRefused") in watched.happened()
    assert watched.exits[-1] == 0


@pytest.mark.slow
def test_a_topology_that_changes_is_read_again(world: Any, watched: Watched) -> None:
    stranger = world.topology["endpoints"][0]
    lacking = {**world.topology, "endpoints": world.topology["endpoints"][1:]}
    lacking["links"] = [one for one in world.topology["links"] if one["a"] != stranger["address"]]
    watched.begin(lacking)
    put(world.flows, watched.incoming, "0.parquet")
    state = watched.round()
    of_stranger = world.flows[["src", "dst"]].eq(stranger["address"]).any(axis=1).sum()
    assert state.fates["unknown"] == of_stranger
    watched.begin(world.topology)
    put(world.flows.head(-1), watched.incoming, "1.parquet")
    assert watched.round().fates["kept"] > state.fates["kept"]


def test_a_topology_that_becomes_wrong_is_an_alert_until_it_is_mended(
    world: Any, watched: Watched
) -> None:
    put(world.flows.head(50), watched.incoming, "0.parquet")
    contents = iter(["{", json.dumps(world.topology)])
    watched.round()
    watched.round(4, lambda: [watched.topology.write_text(one) for one in islice(contents, 1)])
    assert watched.happened() == [("opened", "TopologyRefused"), ("resolved", "TopologyRefused")]
    assert "topology is that of before" in watched.events[0]["annotations"]["summary"]


def test_files_that_are_no_records_are_an_alert_until_others_come(
    world: Any, watched: Watched
) -> None:
    (watched.incoming / "notes.bin").write_bytes(b"\x07" * 100)
    (watched.incoming / "half.tmp").write_bytes(b"PAR1")
    watched.round()
    assert watched.happened() == [("opened", "RecordsRefused")]
    assert "notes.bin" in watched.events[0]["annotations"]["summary"]
    put(world.flows.head(50), watched.incoming, "0.parquet")
    watched.round()
    assert watched.happened() == [("opened", "RecordsRefused"), ("resolved", "RecordsRefused")]
    assert watched.exits == [6, 0]


def test_a_folder_belongs_to_one_monitor(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    with pytest.raises(UserError, match="another monitor"):
        StateFolder(tmp_path / "state")
    folder.close()
    StateFolder(tmp_path / "state").close()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.txt"):
        StateFolder(tmp_path)
    (tmp_path / "state" / "state.json").write_text(json.dumps({"commit": "many"}))
    with pytest.raises(UserError, match="no state of a monitor"):
        StateFolder(tmp_path / "state")


@pytest.mark.slow
def test_a_job_on_other_servers_gets_its_own_name(tmp_path: Path) -> None:
    worlds = [make_world(steps=14, name="a"), make_world(steps=14, name="b")]
    both = join_worlds(*worlds)
    watched = Watched(tmp_path)
    watched.begin(both.topology)
    put(both.flows, watched.incoming, "0.parquet")
    first = watched.round()
    shift_ns = int(both.flows["end_ns"].max() - both.flows["start_ns"].min()) + SECOND_NS
    later = worlds[1].flows
    times = {name: later[name] + shift_ns for name in ("start_ns", "end_ns")}
    put(pd.DataFrame(later.assign(**times)), watched.incoming, "1.parquet")
    second = watched.round()
    names = {job.name: job.servers for job in first.jobs}
    assert sorted(names) == ["job-0", "job-1"]
    assert {job.name: job.servers for job in second.jobs} == names


def test_windows_that_show_no_steps_yet_stop_nothing(world: Any, watched: Watched) -> None:
    first = list(pieces(world.flows, 34))[:3]
    watched.settings = replace(SETTINGS, stride_ns=SECOND_NS // 10)
    for number, records in enumerate(first):
        put(records, watched.incoming, f"{number}.parquet")
        state = watched.round()
    assert state.fates["kept"] == sum(len(records) for records in first)
    assert state.cursor_ns is not None


@pytest.fixture(scope="module")
def arriving(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, set[Any]]:
    """A job with a slow replica, and what one diagnosis of all its records finds."""
    slow = {(1, step): 1.5 for step in range(24, 28)}
    world = make_world(dp=2, micro=4, steps=44, slow=slow, jitter=0.01)
    findings = diagnose(*world.save(tmp_path_factory.mktemp("whole"))).findings
    columns = ["culprit", "first_step", "last_step"]
    return world, {
        (alert_name(dict(row)), *row[columns].tolist()) for _, row in findings.iterrows()
    }


class Kills(Listener):
    """Ends a monitor when so many windows are diagnosed or followed, before their commit."""

    def __init__(self) -> None:
        self.left = -1

    def diagnosed(self, state: State, view: object) -> None:
        """Count a window."""
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    followed = diagnosed


@settings(max_examples=5)
@given(
    delay_s=st.sampled_from([0.0, 0.2, 2.0]),
    arrivals=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0, 1, 1, 3]), st.sampled_from([0, 0, 1, 3])),
        max_size=7,
    ),
)
def test_what_is_found_does_not_depend_on_how_records_arrive(
    arriving: tuple[Any, set[Any]],
    tmp_path_factory: pytest.TempPathFactory,
    delay_s: float,
    arrivals: list[tuple[float, int, int]],
) -> None:
    """In any parts, late by up to a bound, with pauses, ends and kills between."""
    world, expected = arriving
    kills = Kills()
    watched = Watched(tmp_path_factory.mktemp("arrival"), listeners=[kills])
    watched.begin(world.topology)
    delays_ns = np.random.default_rng(1).uniform(0, delay_s * SECOND_NS, len(world.flows))
    left = world.flows.iloc[(world.flows["end_ns"] + delays_ns).argsort(kind="stable")]
    for share, rounds, windows in [*arrivals, (1.0, 3, 0)]:
        kills.left = windows
        count = math.ceil(share * len(left))
        put(left.head(count), watched.incoming, f"{len(left)}.parquet")
        left = left.iloc[count:]
        with suppress(KeyboardInterrupt):
            watched.round(rounds) if rounds else None
    assert _incidents(watched) == expected
