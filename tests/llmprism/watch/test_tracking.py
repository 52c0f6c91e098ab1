"""A monitor that follows jobs finds what it finds if it diagnoses each window."""

from __future__ import annotations

from collections.abc import Callable
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
from llmprism.watch.view import View
from watching import SETTINGS, Watched, put

STEPS = 60


class Counted(Listener):
    """Counts the windows that were diagnosed, and the steps that were followed."""

    def __init__(self) -> None:
        self.windows, self.steps, self.all_windows = 0, 0, 0

    def diagnosed(self, state: State, view: View) -> None:
        """Count a window."""
        self.windows, self.all_windows = self.windows + 1, state.windows + 1

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Count steps."""
        self.steps, self.all_windows = self.steps + len(steps), state.windows


def _watched(world: Any, folder: Path, records: pd.DataFrame) -> tuple[Watched, Counted]:
    """Watch records that come in pieces of a stride, by one monitor."""
    counted = Counted()
    history = History(folder / "state" / "history", 36_500)
    one = Watched(folder, replace(SETTINGS, stride_ns=SECOND_NS), [counted, history])
    one.begin(world.topology)
    ordered = records.sort_values("end_ns", kind="stable")
    since_ns = ordered["end_ns"] - ordered["end_ns"].min()
    pieces = [own for _, own in ordered.groupby(since_ns // SECOND_NS)]
    later = iter(pieces)
    put(next(later), one.incoming, "0.parquet")

    def arrive() -> None:
        if (piece := next(later, None)) is not None:
            put(piece, one.incoming, f"{len([*one.incoming.iterdir()])}.parquet")

    one.round(len(pieces), arrive)
    return one, counted


@pytest.fixture
def steady(make_world: Callable[..., Any]) -> Any:
    """A job whose steps are all alike."""
    return make_world(steps=STEPS, jitter=0.01)


def test_most_windows_of_a_steady_job_need_no_diagnosis(steady: Any, tmp_path: Path) -> None:
    one, counted = _watched(steady, tmp_path, steady.flows)
    assert counted.steps > STEPS / 2
    assert counted.windows <= counted.all_windows / 4
    steps = pq.read_table(tmp_path / "state" / "history" / "steps").to_pandas()
    numbers = np.sort(steps["step"].unique())
    assert numbers.tolist() == [*range(numbers.size)]
    assert numbers.size >= STEPS - 3
    ends = steps.groupby("step")["end_ns"].median()
    period = ends.diff().median()
    assert (ends.diff().dropna() - period).abs().max() < 0.1 * period
    assert one.events == []


def test_a_lost_record_here_and_there_does_not_matter(steady: Any, tmp_path: Path) -> None:
    kept = np.random.default_rng(0).random(len(steady.flows)) > 0.01
    one, counted = _watched(steady, tmp_path, steady.flows[kept])
    assert counted.steps > STEPS / 2
    assert one.events == []


def test_a_slow_gpu_is_found_while_its_job_is_followed(
    make_world: Callable[..., Any], tmp_path: Path
) -> None:
    slow = {(1, step): 1.3 for step in range(40, 46)}
    world = make_world(steps=STEPS, slow=slow, jitter=0.01)
    one, counted = _watched(world, tmp_path, world.flows)
    events = one.happened()
    assert set(events) == {("opened", "SlowGpu"), ("resolved", "SlowGpu")}
    assert len(events) <= 2 * 2  # the replica has two GPUs
    assert (one.events[-1]["first_step"], one.events[-1]["last_step"]) == (40, 45)
    assert counted.steps > STEPS / 4
