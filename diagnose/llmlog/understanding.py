"""What was understood of logs: lines of a known kind, and words of errors in lines of none.

A line is known if it is part of an event, shows progress, or has the head of a tool and no
level of an error. If too little is known, nobody can say that a job did not fail."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from llmlog.evidence import Evidence
from llmlog.records import Record

BOUND = 0.05
"""Least share of known lines of a job that may be called sound."""
_BAD = re.compile(
    r"(?i)\b(?:errors?|exception|fatal|fail(?:ed|ure)?|abort(?:ed|ing)?|killed|panic|segfault"
    r"|core dumped|timed? ?out|timeout|unreachable|refused|corrupt(?:ed)?|unhealthy|crash(?:ed)?"
    r"|out of memory|terminated|hang|hung|stuck|stalled|died|dead|lost|evicted|preempted"
    r"|expelled|exited)\b"
)
_HARMLESS = re.compile(
    r"(?i)\b(?:0|no) (?:errors?|fail\w*)|error[_ ]?(?:file|rate|handling|bars?)|lost in"
    r"|timeout ?[=:]|\bcode 0\b"
)
_BANNER = re.compile(
    r"^[\s*=\-#_~.]*$|^\s*[\w.-]+ \.{3,} |^\S+\.py:\d+: \w*Warning|^\s*warnings?\.warn\(|^\+ \w"
)
COMPLETED = "COMPLETED"
"""State of a job that the scheduler calls successful."""
_SHOWN = 5
"""Unread lines that are listed."""


@dataclass(frozen=True)
class Known:
    """What was understood of the lines of a job.

    Attributes
    ----------
    lines, share : their number, and the share of those of a known kind.
    sound : whether enough is known to say that nothing failed.
    unread : lines of no known kind that have words of errors, with their places.
    samples : lines of no known kind.
    """

    lines: int
    share: float
    sound: bool
    unread: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def known(evidence: Evidence) -> Known:
    """What was understood of a job."""
    bad = bad_at_the_end(evidence)
    texts = [f"{file}:{line}: {text}" for file, line, text in bad[-_SHOWN:]]
    sound = evidence.job.state == COMPLETED or is_understood(evidence)
    return Known(evidence.lines, share(evidence), sound, texts, [*evidence.samples.values()])


def is_known(record: Record) -> bool:
    """Whether the form of an ordinary line is known."""
    if record.level not in "IWD":  # these say nothing of a failure
        return False
    if record.tool or record.level:
        return True
    return _BANNER.match(record.text) is not None


def is_bad(record: Record) -> bool:
    """Whether a line has words of errors."""
    bad = record.level in ("E", "F", "C") or is_bad_text(record.text)
    return bad and _HARMLESS.search(record.text) is None


def is_bad_text(text: str) -> bool:
    """Whether a text has words of errors."""
    return _BAD.search(text) is not None and _HARMLESS.search(text) is None


def share(evidence: Evidence) -> float:
    """The share of lines whose kind is known; 1 if there is none."""
    return evidence.understood / evidence.lines if evidence.lines else 1.0


def is_understood(evidence: Evidence) -> bool:
    """Whether enough is known to say that nothing failed.

    Training has to be seen, and nothing after its last line may have words of errors that
    nobody reads."""
    progress = evidence.progress
    if evidence.dumps or not (progress.shown or progress.ends):
        return bool(evidence.dumps)
    if progress.ends:
        return True
    return share(evidence) >= BOUND and not bad_at_the_end(evidence)


def bad_at_the_end(evidence: Evidence) -> list[tuple[str, int, str]]:
    """Unread lines with words of errors after the last line that shows progress in their file."""
    progress = evidence.progress
    last: dict[str, int] = {}
    places = [(one.file, one.line) for one in progress.iterations] + [
        at for at, _ in progress.beats
    ]
    for file, line in places + progress.ends:
        last[file] = max(line, last.get(file, 0))
    return [each for each in evidence.unread if each[1] > last.get(each[0], 0)]
