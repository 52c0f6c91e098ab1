"""What was understood of logs: lines of a known kind, and words of errors in lines of none.

A line is known if it is part of an event, shows progress, or has the head of a tool and no level of an error.
If too little is known, nobody can say that a job did not fail.
"""

from __future__ import annotations

import re

from llmlog.evidence import Evidence
from llmlog.records import Record

BOUND = 0.05
"""Least share of known lines of a job that may be called sound."""
_BAD = re.compile(
    r"(?i)\b(?:errors?|exception|fatal|fail(?:ed|ure)?|abort(?:ed|ing)?|killed|panic|segfault|core dumped|"
    r"timed? ?out|timeout|unreachable|refused|corrupt(?:ed)?|unhealthy|crash(?:ed)?|out of memory|terminated|"
    r"hang|hung|stuck|died|lost)\b"
)
_HARMLESS = re.compile(r"(?i)\b(?:0|no) (?:errors?|fail\w*)|error[_ ]?(?:file|rate|handling|bars?)|lost in|timeout ?[=:]")
_BANNER = re.compile(r"^[\s*=\-#_~.]*$|^\s*[\w.-]+ \.{3,} |^\S+\.py:\d+: \w*Warning|^\s*warnings?\.warn\(|^\+ \w")
_TALKING = "IWD"
"""Levels of lines that say nothing of a failure."""


def is_known(record: Record) -> bool:
    """Whether the form of an ordinary line is known."""
    if record.level and record.level not in _TALKING:
        return False
    if record.tool or record.level:
        return True
    return _BANNER.match(record.text) is not None


def is_bad(record: Record) -> bool:
    """Whether a line has words of errors."""
    bad = record.level in ("E", "F", "C") or _BAD.search(record.text) is not None
    return bad and _HARMLESS.search(record.text) is None


def share(evidence: Evidence) -> float:
    """The share of lines whose kind is known; 1 if there is none."""
    return evidence.understood / evidence.lines if evidence.lines else 1.0


def is_understood(evidence: Evidence) -> bool:
    """Whether enough is known to say that nothing failed.

    Training has to be seen, and nothing after its last line may have words of errors that nobody reads.
    """
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
    places = [(one.file, one.line) for one in progress.iterations] + [at for at, _ in progress.beats]
    for file, line in places + progress.ends:
        last[file] = max(line, last.get(file, 0))
    return [each for each in evidence.unread if each[1] > last.get(each[0], 0)]
