"""Writing the scores of the diagnosis from logs: ``python -m evaluation logs``."""

from __future__ import annotations

from evaluation.exam.intervals import Estimate
from evaluation.logs.measuring import measure
from evaluation.logs.scoring import Tally, tallied
from evaluation.paths import ROOT

PAGE = ROOT / "results/reference/logs.md"
_COLUMNS = ("precision", "recall", "top_1", "top_5", "stage", "iteration", "cause")
_HEAD = (ROOT / "evaluation/templates/logs.md").read_text(encoding="utf-8")
_PUBLISHED = "| L4, published | 78.6 | 98.2 | 87.3 | 65.8 | 80 | - | - | - |"
"""Of other logs, which are closed (arXiv 2503.20263)."""


def write(failures: int, seed: int) -> str:
    """Write the page; return it."""
    parts = [_HEAD.format(failures=failures, seed=seed)]
    for population, scored in measure(failures, seed).items():
        table = f"{_table(tallied(scored))}\n{_PUBLISHED}"
        parts.append(f"## Population {population}\n\n{table}\n")
    text = "\n".join(parts)
    PAGE.write_text(text, encoding="utf-8")
    return text


def _table(tallies: dict[str, Tally]) -> str:
    head = ("rule", "events: precision", "recall", "F1", "node: first", "of five", "stage")
    rows = [[*head, "iteration", "cause"], ["---"] * 9]
    for name, tally in tallies.items():
        cells = [_cell(tally.estimate(column)) for column in _COLUMNS]
        f1 = "-" if tally.f1 is None else f"{100 * tally.f1:.1f}"
        rows.append([name, *cells[:2], f1, *cells[2:]])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(estimate: Estimate) -> str:
    if estimate["value"] is None:
        return "-"
    value, low, high = (100 * estimate[name] for name in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f} to {high:.1f})"
