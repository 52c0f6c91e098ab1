"""Pictures of sweeps: also of faults, categories, drawn values, methods and undefined figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from prism_sim.studies import sweep, sweep_figure
from prism_sim.studies.study import Study
from prism_sim.studies.sweep_values import names_of
from prism_sim.toolkit import Run

FAULTS = ['[]', '[{"kind": "slow_gpu", "rank": 1, "factor": 0.5}]',
          '[{"kind": "slow_nic", "nic": 1, "factor": 0.5}]']  # fmt: skip
RECALL, STEP = "faults.recall", "truth.step_s_mean"


def drawn(folder: Path, rows: dict[str, list[Any]], **study: Any) -> Figure:
    """The picture of a study whose runs have these results."""
    read = Study.model_validate({"scenario": "any", "figures": [STEP], **study})
    rest = {"seed": 0, "method": "none", "error": None, "key": "k"}
    table = pd.DataFrame(rows).assign(**{k: v for k, v in rest.items() if k not in rows})
    sweep.write_table(read, table, folder)
    return sweep_figure.draw(Run(folder))


def rows_of(panel: Axes) -> list[str]:
    return [label.get_text() for label in panel.get_yticklabels()]


def legend_of(made: Figure) -> list[str]:
    return [text.get_text() for legend in made.legends for text in legend.get_texts()]


def test_faults_are_rows_named_by_what_distinguishes_them(tmp_path: Path) -> None:
    figures = {RECALL: [None, 1.0, 0.0], STEP: [1.0, 2.0, 3.0]}
    made = drawn(tmp_path, {"faults": FAULTS, **figures}, grid={"faults": [[], [1], [2]]},
                 figures=[RECALL, STEP])  # fmt: skip
    for panel in made.axes:
        assert rows_of(panel) == ["none", "slow_gpu", "slow_nic"]
    runs = [one.get_offsets().data.tolist() for one in made.axes[1].collections]
    assert sorted(dot for dots in runs for dot in dots) == [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    assert "undefined in 1 of 3 runs" in made.axes[0].get_xlabel()


def test_a_figure_that_is_undefined_everywhere_says_so(tmp_path: Path) -> None:
    made = drawn(tmp_path, {"jobs.0.dp": [1, 2], STEP: [None, None]}, grid={"jobs.0.dp": [1, 2]})
    assert [text.get_text() for text in made.axes[0].texts] == ["undefined in every run"]


def test_methods_are_compared_by_an_empty_grid(tmp_path: Path) -> None:
    made = drawn(tmp_path, {"method": ["paper", "prism"], STEP: [1.0, 2.0]})
    assert rows_of(made.axes[0]) == ["paper", "prism"]


def test_drawn_values_have_a_column_of_panels_each_with_its_scale(tmp_path: Path) -> None:
    over = {"a": {"low": 1, "high": 1000, "scale": "log"}, "b": {"low": 0, "high": 1}}
    results = {"a": [1.0, 30.0, 900.0], "b": [0.1, 0.9, 0.4], STEP: [1.0, 2.0, 3.0]}
    made = drawn(tmp_path, results, latin_hypercube={"samples": 3, "over": over})
    assert [panel.get_xlabel() for panel in made.axes] == ["a", "b"]
    assert [panel.get_xscale() for panel in made.axes] == ["log", "linear"]
    assert not [line for panel in made.axes for line in panel.get_lines()]


def test_a_figure_may_be_the_x_axis_and_variants_are_in_the_legend(tmp_path: Path) -> None:
    results = {"variant": ["cheap", "dear"], "truth.records_per_s": [10.0, 1e4], STEP: [1.0, 2.0]}
    made = drawn(tmp_path, results, variants={"cheap": {}, "dear": {}}, x="truth.records_per_s",
                 x_scale="log")  # fmt: skip
    (panel,) = made.axes
    assert panel.get_xlabel() == "records per s"
    assert legend_of(made) == ["cheap", "dear"]
    assert not any("$" in label.get_text() for label in panel.get_xticklabels())


def test_a_column_that_follows_from_the_x_axis_makes_no_lines(tmp_path: Path) -> None:
    places = [{"a": 1, "b": 8}, {"a": 2, "b": 4}]
    results = {"a": [1, 2, 1, 2], "b": [8, 4, 8, 4], "q": [1, 1, 4, 4], STEP: [1.0, 2.0, 3.0, 4.0]}
    made = drawn(tmp_path, results, list=places, grid={"q": [1, 4]}, x="a")
    assert legend_of(made) == ["q 1", "q 4"]
    assert [line.get_xdata().tolist() for line in made.axes[0].get_lines()] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([1, 2.5, 1e-6], ["1", "2.5", "1e-06"]),
        ([True, False], ["true", "false"]),
        (['{"kind": "tor", "spines": 2}', '{"kind": "tor", "spines": 4}'],
         ["spines 2", "spines 4"]),
        (['[{"kind": "a", "rank": 1}]', '[{"kind": "a", "rank": 2}]', '[{"kind": "b"}]'],
         ["a, rank 1", "a, rank 2", "b"]),
        (["null", "packed"], ["left out", "packed"]),
    ],
)  # fmt: skip
def test_names_of_values_are_short_and_different(values: list[Any], names: list[str]) -> None:
    assert [*names_of(values).values()] == names
