"""A monitor finds what one diagnosis of all records finds, whatever happens to it."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmprism.pipeline import diagnose
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.sources import open_source
from llmprism.watch.state_folder import StateFolder
from prism_common.errors import UserError
from processes import started, wait_until
from watching import LLMPRISM, Watched, events_in, pieces, put

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
    assert (last["first_step"], last["last_step"]) == (14, 17)
    assert len(whole.findings) == 1
    assert [job.name for job in state.jobs] == ["job-0"]
    ends = whole.steps.groupby("step")["end_ns"].median()
    period = ends.diff().median()
    for step, end_ns in state.jobs[0].ends_ns.items():
        assert abs(ends[step] - end_ns) < 0.1 * period
    assert state.fates["kept"] == len(world.flows)
    assert set(watched.exits) == {0}


def _uninterrupted(world: Any, folder: Path, count: int) -> list[dict[str, Any]]:
    one = Watched(folder)
    one.begin(world.topology)
    for number, records in enumerate(pieces(world.flows, count)):
        put(records, one.incoming, f"{number}.parquet")
        one.round()
    return one.events


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_no_record_and_repeats_no_alert(
    world: Any, watched: Watched, tmp_path: Path
) -> None:
    expected = _uninterrupted(world, tmp_path / "calm", 3)
    state = watched.folder / "state"
    command = [*LLMPRISM, "watch", str(watched.incoming), "--topology", str(watched.topology)]
    command += ["--state", str(state), "--window", "10s", "--every", "2s", "--quiet-period", "2s"]
    command += ["--lag-bound", "2000000000s"]
    moments = [
        lambda: any((state / "records").glob("*.parquet")),  # before the commit, or after it
        lambda: len(events_in(state)) >= 1,
        lambda: len(events_in(state)) >= len(expected),
    ]
    for number, (records, happened) in enumerate(zip(pieces(world.flows, 3), moments, strict=True)):
        put(records, watched.incoming, f"{number}.parquet")
        with started(command, tmp_path) as process:
            wait_until(happened, 60)
            os.kill(process.pid, signal.SIGKILL)
    last = watched.round()
    assert last.fates["kept"] == len(world.flows)
    assert [one["number"] for one in watched.events] == list(range(1, len(watched.events) + 1))
    assert [(one["event"], one["labels"]) for one in watched.events] == [
        (one["event"], one["labels"]) for one in expected
    ]


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
    put(world.flows, watched.incoming, "1.parquet")
    assert watched.round().fates["kept"] > state.fates["kept"]


def test_a_topology_that_becomes_wrong_is_an_alert_until_it_is_mended(
    world: Any, watched: Watched
) -> None:
    put(world.flows.head(50), watched.incoming, "0.parquet")
    contents = iter(["{", world.topology])
    watched.round(rounds=4, between=lambda: _write_next(watched, contents))
    assert watched.happened() == [("opened", "TopologyRefused"), ("resolved", "TopologyRefused")]
    assert "topology is that of before" in watched.events[0]["annotations"]["summary"]


def test_a_monitor_that_was_killed_before_its_first_diagnosis_goes_on(
    world: Any, watched: Watched
) -> None:
    put(world.flows, watched.incoming, "0.parquet")
    folder = StateFolder(watched.folder / "state")
    monitor = Monitor(
        open_source(str(watched.incoming), folder.path),
        Network(watched.topology),
        folder,
        watched.settings,
    )
    monitor.run(lambda: True, lambda: True)  # the records are stored, and nothing else
    folder.close()
    assert folder.state.parts
    assert not folder.state.jobs
    assert watched.round().jobs


def _write_next(watched: Watched, contents: Iterator[Any]) -> None:
    content = next(contents, None)
    if content is not None:
        text = content if isinstance(content, str) else json.dumps(content)
        watched.topology.write_text(text)


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
def test_a_job_on_other_servers_gets_its_own_name(
    make_world: Callable[..., Any], join_worlds: Callable[..., Any], tmp_path: Path
) -> None:
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


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_found_does_not_depend_on_how_records_arrive(
    world: Any, tmp_path_factory: Any, data: st.DataObject
) -> None:
    """In any parts, a little out of order, taken together or one by one, with starts between."""
    count = data.draw(st.integers(1, 9))
    most_ns = data.draw(st.sampled_from([1, SECOND_NS // 2]))
    delays = np.random.default_rng(count).integers(0, most_ns, len(world.flows))
    order = (world.flows["end_ns"] + delays).argsort(kind="stable")
    watched = Watched(tmp_path_factory.mktemp("arrival"))
    watched.begin(world.topology)
    for number, rows in enumerate(np.array_split(order, count)):
        put(world.flows.iloc[rows], watched.incoming, f"{number}.parquet")
        if data.draw(st.booleans()) or number == count - 1:
            watched.round()
    assert watched.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]
    assert (watched.events[-1]["first_step"], watched.events[-1]["last_step"]) == (14, 17)
