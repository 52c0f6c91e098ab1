"""Tables of LaTeX: text of others has no sign of LaTeX, and every row has all cells."""

from __future__ import annotations

from prism_sim.render.comparison import COLUMN_INCHES, as_latex, draw, escaped, latex_table
from prism_sim.render.paint import pdf

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
