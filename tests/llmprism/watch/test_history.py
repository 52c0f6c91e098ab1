"""The history answers from its files, also after they were merged, and forgets old days."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism.watch.history.command import history_app
from llmprism.watch.history.recording import (
    MOST_FILES,
    TABLES,
    History,
    compact_day,
    day_of,
    forget_days,
    own_history,
)
from watching import Watched, pieces, put


def _asked(folder: Path, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(history_app, [str(folder), *words, "--json"])
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.output)
    return rows


def test_it_names_the_culprit_and_has_each_step_once(world: Any, watched: Watched) -> None:
    state = watched.folder / "state"
    for number, records in enumerate(pieces(world.flows, 3)):
        put(records, watched.incoming, f"{number}.parquet")
        watched.listeners = [History(state / "history", 90)]
        watched.round()
    (culprit,) = _asked(state)
    opened, *_, resolved = watched.events
    assert culprit["place"] == opened["labels"]["place"]
    assert (culprit["incidents"], culprit["causes"], culprit["jobs"]) == (1, "SlowGpu", "job-0")
    assert culprit["gpu_hours"] == pytest.approx(resolved["gpu_hours"])
    (finding,) = _asked(state, "findings")
    assert finding["stage"] == "resolved"
    lasted = pd.Timestamp(resolved["endsAt"]) - pd.Timestamp(resolved["startsAt"])
    assert finding["lasted_s"] == pytest.approx(lasted.total_seconds())
    place, severity = culprit["place"], finding["severity"]
    for words in (["--place", place], ["--severity", severity], ["--job", "job-0"]):
        assert len(_asked(state, "findings", *words)) == 1
        assert _asked(state, "findings", words[0], "none") == []
    assert _asked(state, "findings", "--from", "2040-01-01") == []
    assert len(_asked(state, "findings", "--to", "2040-01-01")) == 1
    (job,) = _asked(state, "jobs")
    steps = pq.read_table(state / "history" / "steps").to_pandas()
    assert sorted(steps["step"]) == list(range(job["first_step"], job["last_step"] + 1))
    ends = world.steps.groupby("step")["end_ns"].max()
    assert job["step_s"] == pytest.approx(ends.diff().median() / 1e9, rel=0.05)
    assert _asked(state, "layouts")[-1]["gpus"] == 8


def _step(number: int) -> pd.DataFrame:
    row = {"job": "job-0", "step": number, "start_ns": number, "end_ns": number + 1, "ranks": 1}
    return pd.DataFrame([row])


def test_many_files_become_one_and_rows_that_a_crash_doubled_count_once(tmp_path: Path) -> None:
    folder = tmp_path / "history" / "steps" / "day=2026-11-26"
    folder.mkdir(parents=True)
    for number in range(MOST_FILES + 1):
        pq.write_table(
            pa.Table.from_pandas(_step(number), TABLES["steps"], preserve_index=False),
            folder / f"{number:010}.parquet",
        )
    first = (folder / f"{0:010}.parquet").read_bytes()
    compact_day(own_history(tmp_path / "history"), "steps/day=2026-11-26", TABLES["steps"])
    (merged,) = folder.glob("*.parquet")
    assert sorted(pq.read_table(merged)["step"].to_pylist()) == list(range(MOST_FILES + 1))
    (folder / f"{0:010}.parquet").write_bytes(first)
    (job,) = _asked(tmp_path, "jobs")
    assert (job["first_step"], job["last_step"]) == (0, MOST_FILES)


def test_old_days_are_forgotten_and_other_questions_are_errors(tmp_path: Path) -> None:
    for day in ("2026-08-01", "2026-11-25", "2026-11-26"):
        (tmp_path / "history" / "steps" / f"day={day}").mkdir(parents=True)
    forget_days(own_history(tmp_path / "history"), 30, day_of(1_795_651_200_000_000_000))
    left = sorted(path.name for path in (tmp_path / "history" / "steps").iterdir())
    assert left == ["day=2026-11-25", "day=2026-11-26"]
    run: Callable[..., Any] = CliRunner().invoke
    assert run(history_app, [str(tmp_path), "weather"]).exit_code == 2
    assert run(history_app, [str(tmp_path / "none")]).exit_code == 1
