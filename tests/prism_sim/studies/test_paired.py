"""Paired differences: the interval is that of a paired t test, and the verdict follows from it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from prism_sim.render.comparison import as_html, as_markdown, blocks
from prism_sim.studies.paired import compared


def results(values: dict[str, list[float | None]], figure: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "group": "g", "world": f"w{n}", "seed": n, "method": method, "reason": None,
                "error": None, "seconds": 1.0, "peak_memory_bytes": 2**20, figure: value,
            }
            for method, column in values.items()
            for n, value in enumerate(column)
        ]
    )  # fmt: skip


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    draws = np.random.default_rng(3)
    hard = draws.normal(0.5, 0.2, 12)  # worlds differ more than methods
    better = hard + draws.normal(0.1, 0.02, 12)
    table = results({"a": hard.tolist(), "b": better.tolist()}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])["differences"]["b"]["faults.recall"]
    expected = stats.ttest_rel(better, hard).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["verdict"] == "better"
    assert found["worlds"] == 12


@pytest.mark.parametrize(
    ("figure", "verdict"), [("faults.recall", "better"), ("timeline.step_error_all_mean", "worse")]
)
def test_a_verdict_knows_which_direction_is_better(figure: str, verdict: str) -> None:
    table = results({"a": [0.1, 0.2, 0.3], "b": [0.31, 0.4, 0.5]}, figure)
    assert compared(table, "a", [figure])["differences"]["b"][figure]["verdict"] == verdict


def test_a_world_without_a_value_is_left_out_and_one_world_has_no_interval() -> None:
    table = results({"a": [0.1, None, None], "b": [0.3, 0.9, None]}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])["differences"]["b"]["faults.recall"]
    assert found["mean"] == pytest.approx(0.2)
    assert (found["worlds"], found["low"], found["verdict"]) == (1, None, "unclear")


def test_pages_have_every_method_and_no_markup_of_names() -> None:
    table = results({"a": [0.1, 0.2], "<b>": [0.3, 0.4]}, "faults.recall")
    groups = {"g": compared(table, "a", ["faults.recall"])}
    assert "| figure | a | <b> |" in as_markdown("title", groups)
    page = as_html("title", groups)
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_the_interval_of_a_share_ends_at_values_that_a_share_can_have() -> None:
    table = results({"a": [0.9, 1.0, 1.0], "b": [0.1, 0.0, 0.0]}, "faults.recall")
    found = compared(table, "a", ["faults.recall"])
    ends = [found["methods"][name]["figures"]["faults.recall"] for name in "ab"]
    assert (ends[0]["high"], ends[1]["low"]) == (1, 0)
    assert found["differences"]["b"]["faults.recall"]["low"] < -1 + 0.1
    assert "0.967 (" in as_markdown("title", {"g": found})


def test_a_wide_table_is_divided_into_narrow_ones() -> None:
    methods = {name: [0.1, 0.2] for name in "abcde"}
    (block, *_) = blocks({"g": compared(results(methods, "faults.recall"), "a", ["faults.recall"])})
    parts = block.narrowed(2)
    assert [part.head for part in parts] == [
        ["figure", "a", "b"],
        ["figure", "c", "d"],
        ["figure", "e"],
    ]
    assert [row[0] for row in parts[2].rows] == [row[0] for row in block.rows]
