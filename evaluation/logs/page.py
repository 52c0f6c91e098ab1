"""Making corpora, and writing their scores: ``python -m evaluation logs``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.exam.intervals import Estimate
from evaluation.logs.scoring import Tally, score
from evaluation.paths import ROOT

PAGE = ROOT / "results/reference/logs.md"
_COLUMNS = ("precision", "recall", "top_1", "top_5", "stage", "iteration", "cause")
_HEAD = """# Diagnosis from logs alone

`python -m evaluation logs --failures {failures} --seed {seed}` makes this page. It draws
{failures} failed jobs of the open population and {failures} of the exam population (kinds of
failures or versions of tools that are held out), and diagnoses their logs. [docs/logs.md](
../../docs/logs.md) describes logs and truth.

An event is the lines of one kind and writer that indicate the failure. Nodes count if the failure
has a first node. The oracle knows which kinds share a symptom, and answers the most frequent one.
Values are in %, with 95 % intervals of Wilson; lines and events of one failure depend on each
other, so the intervals of precision and recall are too narrow.

Read these figures as an upper bound. Both populations come from the generator whose formats and
kinds of failures, held-out ones included, were known when the patterns of llmlog were written.
So the exam population is not blind here, and real logs have not been tried.
"""


def write(failures: int, seed: int) -> str:
    """Write the page; return it."""
    parts = [_HEAD.format(failures=failures, seed=seed)]
    with TemporaryDirectory() as folder:
        for population in ("open", "exam"):
            run = Path(folder) / population
            _make(run, population, failures, seed)
            parts.append(f"## Population {population}\n\n{_table(score([run]))}\n")
    text = "\n".join(parts)
    PAGE.write_text(text, encoding="utf-8")
    return text


def _make(run: Path, population: str, failures: int, seed: int) -> None:
    settings = {
        "failures": failures, "population": population, "successes": 0, "nccl_debug": "info",
    }  # fmt: skip
    command = [sys.executable, "-m", "prism_sim", "logs", "logs/demo", "--seed", str(seed)]
    for name, value in settings.items():
        command += ["--set", f"logs.{name}={value}"]
    subprocess.run([*command, "--out", str(run), "--quiet"], check=True, stdout=subprocess.DEVNULL)


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
