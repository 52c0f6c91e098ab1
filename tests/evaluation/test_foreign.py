"""The exam on public logs: the list, and the verdicts on logs of our own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from evaluation.foreign.judging import PublicLog, drawn, judged, listed
from evaluation.foreign.page import PAGE, drawn_table, summary

FAILED = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
KeyError: 'lr'
"""


def log(path: str, right: dict[str, object] | None, fence: str = "") -> PublicLog:
    return PublicLog("o/r", "c0ffee", "MIT", path, "PyTorch", True, right, fence)


def test_each_log_gets_a_verdict(tmp_path: Path) -> None:
    place = tmp_path / "o+r"
    place.mkdir()
    (place / "notes.md").write_text(f"It failed:\n```\n{FAILED}```\n", encoding="utf-8")
    (place / "well.txt").write_text("step: 1  loss: 3.2\nstep: 2  loss: 3.1\n", encoding="utf-8")
    (place / "dark.txt").write_text("zork\n", encoding="utf-8")
    logs = [
        log("notes.md", {"stage": "launch", "cause": ["key_error"]}, fence="KeyError"),
        log("notes.md", {"cause": "type_error"}, fence="KeyError"),
        log("well.txt", None),
        log("dark.txt", {"stage": "crash"}),
        log("gone.txt", None),
    ]
    verdicts = list(judged(tmp_path, logs))
    outcomes = ["right", "wrong", "right", "not understood", "not in the folder"]
    assert [verdict.outcome for verdict in verdicts] == outcomes
    assert "| failed, looked at | 3 | 1 (33 %" in summary(verdicts[:4])


def test_the_list_has_sixty_logs_of_twelve_stacks_half_of_them_not_looked_at() -> None:
    logs = listed()
    assert len(logs) >= 60
    assert len({one.stack for one in logs}) >= 12
    assert Counter(one.seen for one in logs)[False] >= len(logs) / 2
    assert all(one.commit and one.licence for one in logs)


def test_the_page_has_a_row_for_each_log_that_was_there() -> None:
    figures = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert len(figures) >= 60
    for name, outcome in figures.items():
        (row,) = (line for line in text.split("\n") if line.startswith(f"| {name} |"))
        assert row.endswith(f"| {outcome} |")


def test_drawn_logs_are_mostly_of_other_stacks_and_stay_right() -> None:
    outcomes = list(drawn())
    stacks = {verdict.log.stack for verdict, _ in outcomes}
    assert len(outcomes) >= 40
    assert len(stacks - {one.stack for one in listed()}) >= 0.9 * len(stacks)
    wrong = [verdict.log.repository for verdict, _ in outcomes if verdict.outcome == "wrong"]
    assert wrong == []
    assert drawn_table() in PAGE.read_text(encoding="utf-8")
