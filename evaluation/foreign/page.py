"""The page of the exam on public logs, ``results/reference/foreign.md``, and its figures.

The list (``logs.yaml``) names repositories, commits and paths, and what an engineer would say of
each log. A user puts copies of the repositories into a folder, ``OWNER+NAME/PATH``; a log that is
pasted in a text is the fenced block that contains ``fence``. A log of an issue is the text of that
issue, saved as ``OWNER+NAME/issues/NUMBER.txt``. Drawn logs (``drawn.yaml``) are lines of our own
in the form of public texts of other stacks; they need no folder.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from evaluation.exam.intervals import part
from evaluation.paths import ROOT
from llmlog.diagnosis import diagnose
from llmlog.names import short
from llmlog.reading import find_jobs
from llmlog.streams import Intake
from llmlog.tables import Results
from prism_common.files import write_json
from prism_sim.toolkit import table

LIST = Path(__file__).with_name("logs.yaml")
DRAWN = Path(__file__).with_name("drawn.yaml")
UNKNOWN = "unknown"
"""The right answer about lines that are no log of one job."""
_STEPS = re.compile(r"^@(\d+) ?(.*)$", re.MULTILINE)
_FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
RIGHT, WRONG, DARK, ABSENT = "right", "wrong", "not understood", "not in the folder"


@dataclass(frozen=True)
class PublicLog:
    """One log of the list.

    Attributes
    ----------
    repository, commit, licence, path, fence : where it is.
    stack : the trainer, launcher or driver that printed it.
    seen : whether it was looked at while the reader was written.
    right : fields of the failure that an engineer would name, each with all values that are right;
        None if nothing failed.
    """

    repository: str
    commit: str
    licence: str
    path: str
    stack: str
    seen: bool
    right: dict[str, Any] | str | None
    fence: str = ""
    files: tuple[str, ...] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        """Repository and path, and the beginning of the block."""
        return f"{self.repository} {self.path}{f' ({self.fence[:40]}...)' if self.fence else ''}"


@dataclass(frozen=True)
class Verdict:
    """How llmlog did on one log, what it answered, and the share of lines that it understood."""

    log: PublicLog
    outcome: str
    answer: str
    share: float | None = None


def listed() -> list[PublicLog]:
    """All logs of the list."""
    return [
        PublicLog(
            repository["repository"],
            str(repository["commit"]),
            repository["licence"],
            log["path"],
            log["stack"],
            log["seen"],
            log.get("right"),
            log.get("fence", ""),
            tuple(log.get("files", ())),
        )
        for repository in yaml.safe_load(LIST.read_text(encoding="utf-8"))
        for log in repository["logs"]
    ]


def drawn() -> Iterator[tuple[Verdict, str]]:
    """The verdict on each drawn log of today, and the outcome when it was first read."""
    for row in yaml.safe_load(DRAWN.read_text(encoding="utf-8")):
        log = PublicLog(row["source"], "", "own", "", row["stack"], False, row["right"])
        with TemporaryDirectory() as kept:
            paths = [Path(kept) / "logs" / name for name in row["files"]]
            for path, text in zip(paths, row["files"].values(), strict=True):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(_STEPS.sub(_steps, text), encoding="utf-8")
            alone = len(paths) == 1
            yield _judge(log, paths if alone else [Path(kept) / "logs"]), row["first"]


def _steps(match: re.Match[str]) -> str:
    """Lines of progress for ``@N PREFIX``."""
    numbers = range(1, int(match[1]) + 1)
    return "\n".join(f"{match[2]}step: {n:2d}  loss: {4 - n / 100:.4f}" for n in numbers)


def judged(folder: Path, logs: Iterable[PublicLog]) -> Iterator[Verdict]:
    """The verdict on each of ``logs`` that is in ``folder``."""
    for log in logs:
        place = folder / log.repository.replace("/", "+")
        if not (place / log.path).exists():
            yield Verdict(log, ABSENT, "")
        elif log.fence:
            with TemporaryDirectory() as kept:
                block = Path(kept) / "block.txt"
                block.write_text(_block(place / log.path, log.fence), encoding="utf-8")
                yield _judge(log, [block])
        else:
            yield _judge(log, [place / log.path, *(place / name for name in log.files)])


def _block(path: Path, fence: str) -> str:
    """The fenced block of a text that contains ``fence``; empty if there is none."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return next((match[1] for match in _FENCE.finditer(text) if fence in match[1]), "")


def _judge(log: PublicLog, paths: list[Path]) -> Verdict:
    results = Results()
    for evidence, failure in diagnose(find_jobs(paths), Intake()):
        results.add(evidence, failure)
    failures, job = results.rows["failures"], results.rows["jobs"][0]
    share = job["understood"]
    if not failures:
        sound = job["failed"] is False
        right = log.right == UNKNOWN if not sound else log.right is None
        outcome = RIGHT if right else WRONG if sound else DARK
        answer = "no failure" if sound else f"not understood; {job['iterations']} iterations"
        return Verdict(log, outcome, answer, share)
    row = failures[0]
    wrong = not isinstance(log.right, dict) or any(
        not _agrees(name, right, row) for name, right in log.right.items()
    )
    fields = [f"{row[name]}" for name in ("stage", "node", "rank", "iteration", "cause")]
    return Verdict(log, WRONG if wrong else RIGHT, ", ".join(fields), share)


def _agrees(name: str, right: Any, failure: dict[str, Any]) -> bool:
    """Whether a field has one of the right values; domains of nodes do not matter."""
    values = right if isinstance(right, list) else [right]
    answer = failure[name]
    if name == "cause":
        return bool({answer, *json.loads(failure["or_causes"])} & set(values)) or answer in values
    if name == "node" and answer is not None:
        return short(answer) in [short(value) for value in values if value is not None]
    return answer in values


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
