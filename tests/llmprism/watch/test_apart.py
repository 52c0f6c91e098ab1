"""Only the jobs that change are diagnosed again, and all are known as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from llmprism.watch.history.recording import History
from llmprism.watch.listening import Listener
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state import State
from llmprism.watch.view import Shown, View, shown_after
from small_jobs import join_worlds, make_world
from watching import SETTINGS, Watched

STEPS = 40
SLOW = {(1, step): 1.4 for step in range(24, 30)}
SMALL = {"dp": 2, "micro": 4, "jitter": 0.01}  # below one leaf


class Seen(Listener):
    """What a page would show, and the jobs of each diagnosis."""

    def __init__(self) -> None:
        self.shown: Shown | None = None
        self.diagnosed_jobs: list[set[str]] = []
        self.first_finding: set[str] = set()  # the jobs of the first diagnosis that has one

    def diagnosed(self, state: State, view: View) -> None:
        """Take note of the jobs of a window."""
        self.shown = shown_after(self.shown, view)
        self.diagnosed_jobs.append(set(view.figures))
        if len(view.followed.diagnosis.findings) and not self.first_finding:
            self.first_finding = set(view.figures)

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Take note of steps."""
        if self.shown is not None:
            self.shown = self.shown.with_steps(steps)


def _watched(world: Any, folder: Path) -> tuple[Watched, Seen]:
    """Watch records that come in pieces of a stride."""
    seen, history = Seen(), History(folder / "state" / "history", 36_500)
    one = Watched(folder, replace(SETTINGS, stride_ns=SECOND_NS), [seen, history])
    return one.by_strides(world), seen


def _have_all_steps(seen: Seen, history: Path) -> None:
    """Each job has its steps with consecutive numbers, and the last one is shown."""
    steps = pq.read_table(history / "steps").to_pandas()
    shown = {job.name: job.last_step for job in seen.shown.jobs} if seen.shown else {}
    assert set(shown) == set(steps["job"])
    for job, own in steps.groupby("job"):
        numbers = np.sort(own["step"].unique())
        assert numbers.tolist() == [*range(numbers.size)]
        assert numbers.size >= STEPS - 3
        assert abs(shown[str(job)] - numbers.max()) <= 1


def test_a_job_that_changes_is_diagnosed_without_the_others(tmp_path: Path) -> None:
    slow = make_world(**SMALL, steps=STEPS, slow=SLOW, name="a")
    steady = make_world(**SMALL, steps=STEPS, name="b", forward_ns=22_000_000, seed=1)
    one, seen = _watched(join_worlds(slow, steady), tmp_path)
    assert one.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]
    assert one.events[0]["labels"]["place"].startswith("a-")
    name = one.events[0]["labels"]["job"]
    assert {name} in seen.diagnosed_jobs
    assert sum(name in jobs for jobs in seen.diagnosed_jobs) > len(seen.diagnosed_jobs) / 2
    _have_all_steps(seen, tmp_path / "state" / "history")


def test_a_job_that_begins_is_found_while_another_one_is_followed(tmp_path: Path) -> None:
    first = make_world(**SMALL, steps=STEPS, name="a")
    start_ns = int(first.flows["start_ns"].median())
    second = make_world(**SMALL, steps=STEPS // 2, name="b", start_ns=start_ns, seed=1)
    one, seen = _watched(join_worlds(first, second), tmp_path)
    assert one.events == []
    assert seen.shown is not None
    assert sorted(job.servers[0] for job in seen.shown.jobs) == ["a-0-0", "b-0-0"]
    assert {"job-1"} in seen.diagnosed_jobs


@pytest.mark.slow
def test_a_slow_rank_of_jobs_that_share_switches_is_looked_at_alone(tmp_path: Path) -> None:
    """Only a finding about the network brings the jobs that cross the same switches."""
    wide = {**SMALL, "dp": 4, "steps": 2 * STEPS}
    late = {(1, step): 1.4 for step in range(64, 70)}
    slow = make_world(**wide, slow=late, name="a")
    steady = make_world(**wide, name="b", forward_ns=22_000_000, seed=1)
    one, seen = _watched(join_worlds(slow, steady), tmp_path)
    assert ("opened", "SlowGpu") in one.happened()
    assert seen.first_finding == {"job-0"}
