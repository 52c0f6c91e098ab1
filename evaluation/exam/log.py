"""The log of the exam: a line for every run of the families that are held out.

It shows how often these worlds were used, and so how far a method may have been fitted to them by
accident.
"""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evaluation.exam.page import written
from evaluation.paths import ROOT

LOG = ROOT / "evaluation" / "exam-log.md"
HEAD = """\
# Runs of the exam

`python -m evaluation exam` adds a line for every method whenever it runs the families that are
held out. A commit with a `+` had changes that were not committed.
"""
SHOWN = (
    "recall",
    "culprit first",
    "right server, or in the set",
    "precision",
    "sure and wrong",
    "false findings in 1,000 healthy job-steps",
)
COLUMNS = ("date", "commit", "worlds", "method", *SHOWN)


def commit() -> str:
    """The last commit that has changed the code of the packages."""
    head = _git("log", "-1", "--format=%h", "--", "sim", "diagnose")
    return head + ("+" if _git("status", "--porcelain", "--", "sim", "diagnose") else "")


def today() -> str:
    """The date in universal time."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def append(figures: dict[str, Any], to: Path = LOG) -> None:
    """Add the figures of the held-out families to the log."""
    text = to.read_text(encoding="utf-8") if to.exists() else HEAD
    if _row(COLUMNS) not in text:
        text += f"\n{_row(COLUMNS)}|{'---|' * len(COLUMNS)}\n"
    for method, own in figures["sets"].get("exam", {}).items():
        shown = [written(name, own["findings"][name]) for name in SHOWN]
        cells = [figures["date"], f"`{figures['commit']}`", str(own["worlds"]), f"`{method}`"]
        line = _row([*cells, *shown])
        text += "" if line in text else line  # the page was written again, from the same run
    to.write_text(text, encoding="utf-8")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or ("unknown" if done.returncode else "")
