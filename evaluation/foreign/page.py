"""The page of the exam on public logs, ``results/reference/foreign.md``, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evaluation.exam.intervals import part
from evaluation.foreign.judging import ABSENT, DARK, RIGHT, WRONG, Verdict, drawn, judged, listed
from evaluation.paths import ROOT
from prism_common.files import write_json
from prism_sim.toolkit import table

PAGE = ROOT / "results/reference/foreign.md"
_ALSO = (ROOT / "docs/logs.md", ROOT / "results/reference/logs.md")
"""Texts that have the first table too."""
_BEGIN, _END = "<!-- foreign -->\n", "<!-- /foreign -->"
_DRAWN_BEGIN, _DRAWN_END = "<!-- drawn -->\n", "<!-- /drawn -->"
_TEXT = (ROOT / "evaluation/templates/foreign.md").read_text(encoding="utf-8")
_OUTCOMES = (RIGHT, WRONG, DARK)


def write(folder: Path) -> str:
    """Write the page for the logs in ``folder``; return it."""
    verdicts = list(judged(folder, listed()))
    there = [verdict for verdict in verdicts if verdict.outcome != ABSENT]
    values = {
        "number": len(there),
        "absent": len(verdicts) - len(there),
        "stacks": len({verdict.log.stack for verdict in there}),
        "unseen": sum(not verdict.log.seen for verdict in there),
        "summary": summary(there),
        "by_stack": _by_stack(there),
        "all": _all(there),
        "drawn": drawn_table(),
    }
    text = _TEXT.format(**values)
    PAGE.write_text(text, encoding="utf-8")
    figures = {_name(verdict): verdict.outcome for verdict in there}
    write_json(PAGE.with_suffix(".json"), figures)
    for path in _ALSO:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    return text


def write_drawn() -> str:
    """Write the table of drawn logs of the page again; return it."""
    shown = drawn_table()
    before, rest = PAGE.read_text(encoding="utf-8").split(_DRAWN_BEGIN)
    text = f"{before}{_DRAWN_BEGIN}{shown}{_DRAWN_END}{rest.split(_DRAWN_END, 1)[1]}"
    PAGE.write_text(text, encoding="utf-8")
    return shown


def drawn_table() -> str:
    """Each drawn log with its outcome when it was first read, and today's."""
    rows = []
    first: Counter[str] = Counter()
    today: Counter[str] = Counter()
    for verdict, before in drawn():
        log = verdict.log
        first[before] += 1
        today[verdict.outcome] += 1
        rows.append([log.repository, log.stack, _right(log.right), before, verdict.outcome])
    counts = [f"{of[RIGHT]} right" for of in (first, today)]
    rows.append([f"all {today.total()}", "", "", *counts])
    return table(["form of", "stack", "right", "first read", "today"], rows)


def _right(right: object) -> str:
    if isinstance(right, dict):
        return "; ".join(f"{name} {_value(value)}" for name, value in right.items())
    return "healthy" if right is None else str(right)


def filled(text: str) -> str:
    """``text`` with the first table of the page between its marks."""
    first = PAGE.read_text(encoding="utf-8").split(_BEGIN)[1].split(_END)[0]
    before, rest = text.split(_BEGIN)
    return before + _BEGIN + first + _END + rest.split(_END, 1)[1]


def summary(verdicts: Sequence[Verdict]) -> str:
    """Outcomes of failed and of healthy jobs, whether looked at or not."""
    groups = {
        "failed, looked at": [v for v in verdicts if v.log.seen and v.log.right is not None],
        "failed, not looked at": [
            v for v in verdicts if not v.log.seen and v.log.right is not None
        ],
        "healthy, looked at": [v for v in verdicts if v.log.seen and v.log.right is None],
        "healthy, not looked at": [v for v in verdicts if not v.log.seen and v.log.right is None],
        "all": list(verdicts),
    }
    rows = []
    for name, of in groups.items():
        counts = Counter(verdict.outcome for verdict in of)
        right = part([int(verdict.outcome == RIGHT) for verdict in of], [1] * len(of))
        value = (
            "-"
            if right["value"] is None
            else _percent(*(right[n] for n in ("value", "low", "high")))
        )
        numbers = (len(of), f"{counts[RIGHT]} ({value})", counts[WRONG], counts[DARK])
        rows.append([name, *map(str, numbers)])
    return table(["logs", "number", *_OUTCOMES], rows)


def _percent(value: float | None, low: float | None, high: float | None) -> str:
    return f"{100 * (value or 0):.0f} %, {100 * (low or 0):.0f} to {100 * (high or 0):.0f}"


def _by_stack(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for stack in sorted({verdict.log.stack for verdict in verdicts}):
        of = [verdict for verdict in verdicts if verdict.log.stack == stack]
        counts = Counter(verdict.outcome for verdict in of)
        shares = [verdict.share for verdict in of if verdict.share is not None]
        mean = f"{100 * sum(shares) / len(shares):.0f} %" if shares else "-"
        rows.append([stack, *(str(counts[name]) for name in _OUTCOMES), mean])
    return table(["stack", *_OUTCOMES, "lines understood"], rows)


def _all(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        log = verdict.log
        right = _right(log.right)
        seen = "yes" if log.seen else "no"
        rows.append([_name(verdict), log.licence, seen, right, verdict.answer, verdict.outcome])
    return table(["log", "licence", "looked at", "right", "llmlog", "outcome"], rows)


def _name(verdict: Verdict) -> str:
    log = verdict.log
    return f"`{log.repository}@{log.commit[:8]}` {log.path}" + (
        f', block "{log.fence[:32]}"' if log.fence else ""
    )


def _value(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)
