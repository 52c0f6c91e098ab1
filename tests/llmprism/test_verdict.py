"""Insufficient records: the reason is given with figures, and every finding is uncertain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from llmprism import Diagnosis
from llmprism.io.flows import place
from llmprism.io.loading import adopt
from llmprism.io.topology import parse_topology
from llmprism.pipeline import diagnose
from llmprism.verdict import GUESS, judge
from small_jobs import join_worlds, make_world


def codes(diagnosis: Diagnosis) -> set[str]:
    return {one.reason for one in diagnosis.verdict.reasons}


def text(diagnosis: Diagnosis) -> str:
    return "\n".join(diagnosis.verdict.lines())


@pytest.fixture
def world() -> Any:
    return make_world(steps=16, slow={(1, 9): 2.5})


def diagnosed(world: Any, flows: pd.DataFrame) -> Diagnosis:
    return diagnose(flows, world.topology, method="paper")


def merged(flows: pd.DataFrame, idle_ns: int) -> pd.DataFrame:
    """The records of an exporter that ends a record after a silence of ``idle_ns``."""
    flows = flows.sort_values(["src", "dst", "start_ns"])
    pair = flows["src"] + ">" + flows["dst"]
    silence = flows["start_ns"] - flows.groupby(pair)["end_ns"].cummax().groupby(pair).shift()
    number = (silence.isna() | (silence > idle_ns)).cumsum()
    return flows.groupby(number, as_index=False).agg(
        {"start_ns": "min", "end_ns": "max", "src": "first", "dst": "first", "bytes": "sum"}
    )


def test_good_records_suffice(world: Any) -> None:
    found = diagnosed(world, world.flows)
    assert (found.verdict.can_tell, found.verdict.exit_code) == (True, 0)
    assert (codes(found), found.verdict.lines()) == (set(), [])
    assert found.findings["confidence"].max() > 0.9


def test_an_empty_file_does_not_suffice(world: Any) -> None:
    found = diagnosed(world, world.flows.iloc[:0])
    assert (codes(found), found.verdict.exit_code) == ({"no_records"}, 4)


def test_records_set_aside_do_not_suffice(world: Any) -> None:
    found = diagnosed(world, world.flows.assign(src="10.9.9.9"))
    assert (codes(found), found.verdict.exit_code) == ({"all_records_set_aside"}, 4)
    assert f"{len(world.flows):,}: address unknown to the topology" in text(found)


def test_records_over_many_steps_do_not_suffice(world: Any) -> None:
    found = diagnosed(world, merged(world.flows, idle_ns=10**12))
    assert "long_records" in codes(found)
    assert found.verdict.exit_code == 4
    assert len(found.jobs) == 8  # what can be filled is filled


def test_records_cut_by_an_active_timeout_do_not_suffice(world: Any) -> None:
    """Records follow each other without a silence; none is as long as an inferred step."""
    whole = merged(world.flows, idle_ns=10**12)
    parts, timeout = [], 2 * 10**9
    for row in whole.to_dict("records"):
        starts = np.arange(row["start_ns"], row["end_ns"], timeout)
        ends = np.minimum(starts + timeout - 1, row["end_ns"])
        parts.append(pd.DataFrame({**row, "start_ns": starts, "end_ns": ends}))
    found = diagnosed(world, pd.concat(parts))
    assert "long_records" in codes(found)
    assert "cover 100% of the time" in text(found)


def test_a_clock_of_whole_seconds_does_not_suffice_for_shorter_steps(world: Any) -> None:
    second = 10**9
    times = {name: world.flows[name] // second * second for name in ("start_ns", "end_ns")}
    found = diagnosed(world, world.flows.assign(**times))
    assert found.verdict.exit_code == 4
    assert found.verdict.figures["clock_tick_ns"] == second


@pytest.mark.parametrize("factor", [1_000, 1_000_000])
def test_times_in_another_unit_are_noticed(factor: int) -> None:
    world = make_world(start_ns=0)
    times = {name: world.flows[name] // factor for name in ("start_ns", "end_ns")}
    found = diagnosed(world, world.flows.assign(**times))
    assert found.verdict.exit_code == 4
    assert "are the times in ns" in text(found)


@pytest.mark.parametrize("method", ["paper", "prism"])
def test_records_within_one_tick_of_the_clock_do_not_suffice(world: Any, method: str) -> None:
    flows = world.flows
    second = 10**9
    begin_ns = flows["start_ns"].min() // second * second
    early = flows[flows["end_ns"] < begin_ns + 2 * second]
    coarse = dict.fromkeys(("start_ns", "end_ns"), begin_ns)
    found = diagnose(early.assign(**coarse), world.topology, method=method)
    assert found.verdict.exit_code == 4
    assert "clock tick" in text(found)


def test_ranks_that_disagree_do_not_suffice(world: Any) -> None:
    """Half of the ranks lose every second burst."""
    found = diagnosed(world, world.flows)
    steps = found.steps
    half = steps["address"].isin(sorted(steps["address"].unique())[::2])
    tables = {"jobs": found.jobs, "findings": found.findings}
    tables["steps"] = steps[~half | (steps["step"] % 2 == 0)]
    topology = parse_topology(world.topology)
    flows, intake = place(adopt(world.flows), topology)
    verdict, findings = judge(flows, intake, tables)
    assert [one.reason for one in verdict.reasons] == ["ranks_disagree"]
    assert "4 of 8 ranks disagree on the number of steps (8 to 16" in verdict.reasons[0].text
    assert findings["confidence"].max() == GUESS
    assert json.loads(findings["evidence"].iloc[0])["doubts"] == ["ranks_disagree"]


def test_one_step_does_not_suffice() -> None:
    world = make_world(steps=1)
    assert codes(diagnosed(world, world.flows)) == {"too_few_steps"}


def test_a_job_that_can_be_diagnosed_is_enough() -> None:
    both = join_worlds(make_world(name="a"), make_world(name="b", steps=1))
    found = diagnosed(both, both.flows)
    assert found.verdict.can_tell
    assert [one.job for one in found.verdict.reasons] == ["job-1"]
    assert "in some jobs" in text(found)


def test_the_verdict_is_saved_and_in_the_summary(world: Any, tmp_path: Path) -> None:
    found = diagnosed(world, merged(world.flows, idle_ns=10**12))
    found.write(tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "intake.json").read_text())["verdict"]
    assert saved == json.loads(json.dumps(found.summary()["verdict"]))
    assert saved["can_tell"] is False
    job = saved["figures"]["jobs"][0]
    assert {"record_ns", "step_ns", "covered", "ranks_disagreeing"} <= job.keys()
