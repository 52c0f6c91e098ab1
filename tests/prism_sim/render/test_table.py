"""A score as a table: in a terminal, in Markdown, and in LaTeX."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from prism_common.quantities import percent
from prism_sim.render.comparison import COLUMN_INCHES, as_latex, draw, escaped, latex_table
from prism_sim.render.paint import pdf
from prism_sim.render.table import score_table
from prism_sim.score.summary import summary_lines
from prism_sim.toolkit import score_run


def shown(score):
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(score_table(score))
    return " ".join(out.getvalue().split())


def test_a_good_run(run):
    text = shown(score_run(run))
    assert "jobs 2 of 2 exact" in text
    assert "pairs 100 % of 10 correct" in text
    assert "steps 100 % of 36 matched" in text
    assert "faults 1 of 1 detected" in text
    assert "slow_gpu 10.0.0.2 1 yes 0" in text
    assert "set aside" not in text


def test_a_missed_fault_is_shown_as_missed(run):
    run.write_diagnosis("findings", run.diagnosis("findings").iloc[1:])
    text = shown(score_run(run))
    assert "faults 0 of 1 detected" in text
    assert "slow_gpu 10.0.0.2 not detected no -" in text


def test_records_set_aside_are_reported(run):
    note = {"method": "paper", "rows": 1200, "kept": 1190, "set_aside": {"no address": 10}}
    run.write_json(run.diagnosis_folder / "intake.json", note)
    score = score_run(run)
    assert "set aside 10 of 1,200 records 10 no address" in shown(score)
    assert summary_lines(score)[-1] == "set aside: 10 of 1,200 records (10 no address)"


def test_a_healthy_run_has_no_table_of_faults(run):
    run.write_truth("faults", run.truth("faults").iloc[:0])
    text = shown(score_run(run))
    assert "none injected" in text
    assert "steps to detect" not in text


def test_names_are_not_markup(make_run):
    run = make_run()
    faults = run.truth("faults").assign(kind="[red]x[/nope]", culprit="[bold]")
    run.write_truth("faults", faults)
    assert "[red]x[/nope] [bold]" in shown(score_run(run))


def test_every_line_of_the_summary_is_one_line(run):
    lines = summary_lines(score_run(run))
    assert len(lines) == 6
    assert not [line for line in lines if "\n" in line]


@pytest.mark.parametrize(
    ("fraction", "words"),
    [
        (None, "-"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (-1.0, "-100 %"),
        (0.5, "50.0 %"),
        (0.003, "0.3 %"),
        (0.0004, "0.04 %"),
        (0.99961, "99.96 %"),
        (0.99999999, "~100 %"),
        (-1e-9, "~0 %"),
        (28.06, "2,810 %"),
    ],
)
def test_percent(fraction, words):
    assert percent(fraction) == words


def test_every_table_fits_80_columns_with_its_titles_whole(run):
    findings = run.diagnosis("findings")
    run.write_diagnosis("findings", findings.assign(culprit="x" * 60))
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(score_table(score_run(run)))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    words = "relative error mean p50 p95 p99 max bias all_mean"
    assert words in [" ".join(line.split()) for line in lines]


def test_a_notebook_shows_the_overview_with_names_as_text(run):
    note = {"rows": 5, "kept": 4, "set_aside": {"<script>": 1}}
    run.write_json(run.diagnosis_folder / "intake.json", note)
    page = score_run(run)._repr_html_()
    assert "<td>2 of 2 exact</td>" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


ESTIMATE = {"mean": 0.5, "low": 0.25, "high": 0.75, "worlds": 2}
METHOD = {
    "figures": {"jobs.accuracy": ESTIMATE}, "left_out": [], "failures": {}, "errors": [],
    "seconds_median": 1.0, "peak_memory_bytes_median": 2.0**20,
}  # fmt: skip
GROUP = {
    "reference": "my_method", "worlds": 2, "shares": ["jobs.accuracy"], "differences": {},
    "methods": {"my_method": METHOD, "50 %": METHOD},
}  # fmt: skip


def test_signs_of_latex_are_text():
    assert escaped(r"a_b & 5 % {x} $y$ \z") == r"a\_b \& 5 \% \{x\} \$y\$ \textbackslash{}z"


def test_a_table_has_a_column_for_each_head():
    lines = latex_table("c", ["a", "b", "c"], [["1", "2", "3"]]).splitlines()
    assert r"\begin{tabular}{lcc}" in lines
    assert r"1 & 2 & 3 \\" in lines


def test_a_comparison_is_a_table_and_a_figure_of_a_column():
    text = as_latex({"tenants": GROUP})
    assert r"figure & my\_method & 50 \% \\" in text
    assert r"jobs.accuracy & 0.5 (0.25 to 0.75) & 0.5 (0.25 to 0.75) \\" in text
    made = draw(GROUP)
    assert made.get_figwidth() == COLUMN_INCHES
    assert pdf([made]) == pdf([draw(GROUP)])
