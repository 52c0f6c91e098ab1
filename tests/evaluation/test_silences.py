"""Silence inside all-reduces, counted by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from evaluation.twins.silences import silences, windows
from prism_sim.run_folder import Run

MS = 1_000_000


@pytest.fixture
def run(tmp_path):
    """Two ranks of one stage; the second all-reduce is requested while the first one runs."""
    folder = Run(tmp_path)
    ranks = pd.DataFrame({"job": "A", "rank": [0, 1], "address": ["a", "b"], "pp": 0})
    spans = pd.DataFrame(
        [(0, 10, 50), (1, 20, 51), (0, 10, 90), (1, 20, 91)], columns=["rank", "start_ns", "end_ns"]
    )
    spans[["start_ns", "end_ns"]] *= MS
    spans = spans.assign(job="A", step=0, kind="all_reduce")
    (tmp_path / "truth").mkdir()
    ranks.to_parquet(tmp_path / "truth" / "ranks.parquet")
    spans.to_parquet(tmp_path / "truth" / "spans.parquet")
    return folder


def test_an_all_reduce_runs_when_the_last_has_come_and_the_one_before_is_over(run):
    found = windows(run)
    assert (found["start_ns"] // MS).tolist() == [20, 51]
    assert (found["end_ns"] // MS).tolist() == [50, 90]


def test_silences_are_those_between_records_that_reach_into_it(run):
    """Pauses of 8 (before the first), 3 and 1.5 ms in the first all-reduce, none in the second."""
    times = [(5, 12), (20, 30), (33, 40), (41.5, 70), (95, 96)]
    flows = pd.DataFrame(times, columns=["start_ns", "end_ns"]) * MS
    flows = flows.astype("int64").assign(
        src="a", dst="b", src_port=1, dst_port=2, payload=9, job="A", pair="A0-A1",
        role="dp, with data",
    )  # fmt: skip
    found = silences(run, flows)
    assert found.loc["A", 0, 0, "dp, with data"].tolist() == [2, 1, 0]
    assert found.loc["A", 0, 1, "dp, with data"].tolist() == [0, 0, 0]
