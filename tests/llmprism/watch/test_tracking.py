"""A monitor that follows jobs finds what it finds if it diagnoses each window."""

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
from llmprism.watch.view import View
from small_jobs import make_world
from watching import SETTINGS, Watched

STEPS = 60


class Counted(Listener):
    """Counts the windows that were diagnosed, and the steps that were followed."""

    def __init__(self) -> None:
        self.windows, self.steps = 0, 0

    def diagnosed(self, state: State, view: View) -> None:
        """Count a window."""
        self.windows += 1

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Count steps."""
        self.steps += len(steps)


def _watched(world: Any, folder: Path) -> tuple[Watched, Counted]:
    """Watch records that come in pieces of a stride, by one monitor."""
    counted = Counted()
    listeners = [counted, History(folder / "state" / "history", 36_500)]
    one = Watched(folder, replace(SETTINGS, stride_ns=SECOND_NS), listeners)
    return one.by_strides(world), counted


@pytest.fixture
def steady() -> Any:
    """A job whose steps are all alike."""
    return make_world(steps=STEPS, jitter=0.01)


def test_most_windows_of_a_steady_job_need_no_diagnosis(steady: Any, tmp_path: Path) -> None:
    one, counted = _watched(steady, tmp_path)
    assert counted.steps > STEPS / 2
    assert counted.windows < 8
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
    one, counted = _watched(replace(steady, flows=steady.flows[kept]), tmp_path)
    assert counted.steps > STEPS / 2
    assert one.events == []


def test_a_slow_gpu_is_found_while_its_job_is_followed(tmp_path: Path) -> None:
    slow = {(1, step): 1.3 for step in range(40, 46)}
    world = make_world(steps=STEPS, slow=slow, jitter=0.01)
    one, counted = _watched(world, tmp_path)
    assert one.happened() == [("opened", "SlowGpu"), ("resolved", "SlowGpu")]
    assert (one.events[-1]["first_step"], one.events[-1]["last_step"]) == (40, 45)
    assert counted.steps > STEPS / 4
