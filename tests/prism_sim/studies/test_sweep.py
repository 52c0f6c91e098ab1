"""A sweep: its grid, its table, and results that are not computed twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prism_common.errors import UserError
from prism_sim.studies import sweep, sweep_figure
from prism_sim.studies.cases import RunCase
from prism_sim.studies.pool import Remaining
from prism_sim.studies.study import Study, points_of, read_study, runs_of
from prism_sim.toolkit import Run

BASE = """\
cluster: {servers: 2}
jobs:
  - {name: a, model: {layers: 4, hidden: 2048, heads: 16, vocab: 1000, sequence_length: 2048},
     dp: 4, tp: 4, micro_batches: 2, steps: 3, mfu: 0.5}
"""
STUDY = """\
description: Steps against speed
scenario: base.yaml
grid:
  jobs.0.mfu: [0.25, 0.5]
  jobs.0.steps: [2, 3]
seeds: [1, 2]
methods: [none]
figures: [truth.step_s_mean, truth.gpu_hours]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def swept(path: Path, folder: Path, **how: Any) -> tuple[tuple[int, int], Any]:
    study, source = read_study(path)
    swept = sweep.run_points(points_of(study, source), folder, 1, total=runs_of(study), **how)
    table = sweep.table_of(study, swept.rows, folder)
    sweep.write_table(study, table, folder)
    return (swept.made, swept.there), table


def test_the_table_has_a_row_for_each_run_and_no_other(study: Path, tmp_path: Path) -> None:
    counts, table = swept(study, tmp_path / "out")
    assert counts == (8, 0)
    assert list(table.columns) == [
        "jobs.0.mfu", "jobs.0.steps", "seed", "method", "truth.step_s_mean", "truth.gpu_hours",
        "error", "key",
    ]  # fmt: skip
    where = table[["jobs.0.mfu", "jobs.0.steps", "seed"]].apply(tuple, axis=1)
    assert sorted(where) == [(m, s, seed) for m in (0.25, 0.5) for s in (2, 3) for seed in (1, 2)]
    assert table["error"].isna().all()


def test_its_figures_change_in_the_right_direction(study: Path, tmp_path: Path) -> None:
    _, table = swept(study, tmp_path / "out")
    step = table.groupby("jobs.0.mfu")["truth.step_s_mean"].mean()
    assert step[0.25] > 1.2 * step[0.5]
    hours = table.groupby("jobs.0.steps")["truth.gpu_hours"].mean()
    assert hours[3] / hours[2] == pytest.approx(1.5, rel=0.02)


def test_nothing_is_run_twice(study: Path, tmp_path: Path) -> None:
    _, first = swept(study, tmp_path / "out")
    (tmp_path / "out" / "points" / f"{first['key'][3]}.json").unlink()
    counts, again = swept(study, tmp_path / "out")
    assert counts == (1, 7)
    assert again.equals(first)
    study.write_text(STUDY.replace("[2, 3]", "[2, 3, 4]").replace("gpu_hours", "records"))
    assert swept(study, tmp_path / "out")[0] == (4, 8)


def test_a_key_covers_only_the_inputs_of_a_result(study: Path) -> None:
    read, source = read_study(study)
    case = next(points_of(read, source)).case
    assert case is not None
    renamed = case.scenario.model_copy(update={"name": "x", "description": "y"})
    seeded = case.scenario.model_copy(update={"seed": 9})
    assert RunCase("other", renamed, "none").key == case.key
    assert RunCase(case.name, seeded, "none").key != case.key
    assert RunCase(case.name, case.scenario, "paper").key != case.key


def test_values_that_are_no_numbers_are_text(study: Path, tmp_path: Path) -> None:
    grid = "jobs.0.placement: [packed, {servers: [s0001, s0000]}]"
    study.write_text(STUDY.replace("jobs.0.steps: [2, 3]", grid))
    _, table = swept(study, tmp_path / "out")
    assert set(table["jobs.0.placement"]) == {"packed", '{"servers": ["s0001", "s0000"]}'}


@pytest.mark.parametrize(
    ("wrong", "right", "line", "what"),
    [
        ("jobs.0.mfu: [0.25", "jobs.0.mfo: [0.25", 4, "unknown key 'mfo'"),
        ("jobs.0.steps: [2, 3]", "jobs.0.steps: []", 5, "at least 1 item"),
        ("seeds", "seed", 6, "unknown key 'seed'"),
        ("base.yaml", "bse.yaml", 2, "no bundled scenario"),
        ("figures: [truth.step_s_mean, truth.gpu_hours]", "x_scale: log", 1, "'figures'"),
    ],
)
def test_a_wrong_study_is_refused_at_its_line(
    study: Path, wrong: str, right: str, line: int, what: str
) -> None:
    study.write_text(STUDY.replace(wrong, right))
    with pytest.raises(UserError) as caught:
        list(points_of(*read_study(study)))
    reported = [(problem.where, problem.what) for problem in caught.value.problems]
    assert any(where == f"{study}:{line}" and what in text for where, text in reported), reported


def test_each_design_fills_its_columns_and_changes_the_scenario(
    study: Path, tmp_path: Path
) -> None:
    designs = """\
variants: {fast: {jobs.0.mfu: 0.5}, slow: {jobs.0.mfu: 0.25}}
list: [{jobs.0.steps: 2}, {jobs.0.steps: 3}]
latin_hypercube: {samples: 2, over: {jobs.0.micro_batches: {low: 1, high: 4, whole: true}}}
"""
    study.write_text(STUDY.replace(STUDY[STUDY.index("grid") : STUDY.index("seeds")], designs))
    counts, table = swept(study, tmp_path / "out")
    assert counts == (16, 0)
    columns = ["variant", "jobs.0.steps", "jobs.0.micro_batches"]
    assert list(table.columns[:3]) == columns
    assert len(table[[*columns, "seed"]].drop_duplicates()) == 16
    step = table.groupby("variant")["truth.step_s_mean"].mean()
    assert step["slow"] > 1.2 * step["fast"]


def test_an_empty_grid_compares_methods(study: Path, tmp_path: Path) -> None:
    start, end = STUDY.index("grid"), STUDY.index("seeds")
    text = STUDY.replace(STUDY[start:end], "").replace("[none]", "[none, paper]")
    study.write_text(text.replace("truth.gpu_hours", "jobs.accuracy"))
    _, table = swept(study, tmp_path / "out")
    assert list(zip(table["seed"], table["method"], strict=True)) == [
        (1, "none"), (1, "paper"), (2, "none"), (2, "paper"),
    ]  # fmt: skip
    assert (table["jobs.accuracy"].notna() == (table["method"] == "paper")).all()
    for _, both in table.groupby("seed"):
        assert both["truth.step_s_mean"].nunique() == 1  # the same simulation


def test_a_figure_of_a_job_that_does_not_exist_is_refused_before_anything_runs(
    study: Path, tmp_path: Path
) -> None:
    study.write_text(STUDY.replace("truth.gpu_hours", "truth.per_job.b.gpu_hours"))
    with pytest.raises(UserError, match="is about the job 'b'"):
        swept(study, tmp_path / "out")
    assert not [*tmp_path.rglob("points/*")]


def test_a_figure_that_only_some_runs_may_have_is_null_elsewhere(
    study: Path, tmp_path: Path
) -> None:
    name = "faults.by_kind.slow_gpu.recall"
    text = STUDY.replace("truth.gpu_hours", name).replace("[none]", "[paper]")
    study.write_text(text.replace("[2, 3]", "[2]").replace("[1, 2]", "[1]"))
    read, source = read_study(study)
    result = sweep.run_points(points_of(read, source), tmp_path / "out", 1, total=2)
    (problem,) = sweep.absent_figures(read, result.rows, tmp_path / "out", source)
    assert problem.what == f"no run has the figure {name!r}"
    assert sweep.table_of(read, result.rows, tmp_path / "out")[name].isna().all()


@pytest.mark.parametrize(
    ("designs", "what"),
    [
        ("list: [{jobs.0.steps: 2}]\n", "'jobs.0.steps' twice"),
        ("random: {samples: 2, over: {seed: {low: 1, high: 9}}}\n", "'seed' twice"),
    ],
)
def test_a_column_that_is_filled_twice_is_refused(study: Path, designs: str, what: str) -> None:
    study.write_text(STUDY + designs)
    with pytest.raises(UserError, match=what):
        read_study(study)


def test_an_error_of_a_listed_place_is_at_its_line(study: Path) -> None:
    start, end = STUDY.index("grid"), STUDY.index("seeds")
    study.write_text(STUDY.replace(STUDY[start:end], "list:\n  - {jobs.0.mfo: 0.5}\n"))
    with pytest.raises(UserError) as caught:
        list(points_of(*read_study(study)))
    assert caught.value.problems[0].where == f"{study}:4"


def test_the_remaining_time_follows_from_the_finished_tasks() -> None:
    clock = iter([0.0, 200.0, 210.0, 220.0, 250.0, 270.0])
    remaining = Remaining(lambda: next(clock))
    assert [remaining.sentence(done, 12 - done) for done in (1, 2, 3)] == ["", "", ""]
    assert remaining.sentence(6, 12) == ", about 2 min left"  # 30 s for three
    assert remaining.sentence(12, 0) == ""


def test_the_figure_has_a_panel_for_each_figure_and_a_line_for_each_value(
    study: Path, tmp_path: Path
) -> None:
    swept(study, tmp_path / "out")
    made = sweep_figure.draw(Run(tmp_path / "out"))
    assert [panel.get_title(loc="left") for panel in made.axes] == ["step s mean", "gpu hours"]
    (legend,) = made.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "steps of job 0 2", "steps of job 0 3",
    ]  # fmt: skip
    for panel in made.axes:
        assert [line.get_xdata().tolist() for line in panel.get_lines()] == [[0.25, 0.5]] * 2


def test_a_figure_without_results_says_so(study: Path, tmp_path: Path) -> None:
    read, _ = read_study(study)
    rows = [sweep.Row(dict.fromkeys(read.columns, 1), 1, "none", None, refused="no")]
    table = sweep.table_of(read, rows, tmp_path)
    sweep.write_table(read, table, tmp_path)
    assert "Every run of this sweep failed" in sweep_figure.draw(Run(tmp_path)).texts[0].get_text()


def test_the_bundled_studies_are_ones() -> None:
    from prism_sim.loading.bundled import is_study
    from prism_sim.toolkit import scenarios_folder as folder

    studies = [path for path in (folder() / "studies").glob("*.yaml") if is_study(path)]
    assert len(studies) >= 8
    for path in studies:
        study, source = read_study(path)
        assert isinstance(study, Study)
        question = path.read_text().partition("\n")[0]
        assert question.startswith("# "), path
        assert "?" in question, path
        assert {point.refused for point in points_of(study, source)} == {None}, path
        assert runs_of(study) <= 80, path
