"""What llmlog and simple rules answer about a failed job, in one form.

The rules are those that people use: what torchrun calls the root cause, the first line of level
error, all lines with a keyword, the rank with the lowest number of collectives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from llmlog.diagnosis import Failure, diagnose_job
from llmlog.evidence import Event, Evidence
from llmlog.prefixes import Habit
from llmlog.reading import Job, LogFile
from llmlog.records import Lines, masked
from llmlog.streams import Intake, decoded, lines

Place = tuple[str, int]
"""File and line."""
_KEYWORDS = re.compile(r"(?i)\b(?:error|fail(?:ed|ure)?|exception|fatal|abort\w*|killed|xid)\b")
_HARDWARE = re.compile(
    r"(?i)\bECC\b|GPU is lost|off the bus|\bXid\b|NVLink|ibv_\w+ failed|link (?:is )?down|"
    r"out of memory|I/O error|medium error|catastrophic|machine check|Traceback|\w+Error\b"
)
_SECONDARY = re.compile(
    r"(?i)watchdog|srun: error|slurmstepd|NODE FAILURE|entire process down|closing signal|"
    r"ChildFailedError|terminated with exception|remote (?:peer|process)|NCCL INFO"
)
"""The kinds of words that logsage of NVIDIA separates: of hardware, and of what only follows."""
_TIME = re.compile(r"time +: (\S+)")
_ENQUEUED = re.compile(r"last completed (?:NCCL )?work: (-?\d+)")


class Answer(NamedTuple):
    """Lines that indicate the failure, nodes (most probable first), and more if the rule says so.

    ``stage``, ``iteration`` and ``cause`` are None in rules that do not name them.
    """

    lines: list[Place]
    nodes: list[str]
    stage: str | None = None
    iteration: int | None = None
    cause: str | None = None


def prism(evidence: Evidence) -> Answer:
    """The diagnosis from causal structure."""
    return of_failure(diagnose_job(evidence))


def of_failure(failure: Failure | None) -> Answer:
    """The answer of a method of llmlog."""
    if failure is None:
        return Answer([], [])
    found = [(event.file, event.line) for event in failure.events if event.role == "cause"]
    cause = next(iter(failure.causes), None)
    return Answer(found, failure.nodes, failure.stage, failure.iteration, cause)


def torchrun_root_cause(evidence: Evidence) -> Answer:
    """The agent whose summary has the earliest time."""
    timed = [
        (match[1], event) for event in evidence.of("summary") if (match := _TIME.search(event.text))
    ]
    return _of([event for _, event in sorted(timed, key=lambda pair: pair[0])], first=True)


def lowest_number(evidence: Evidence) -> Answer:
    """The rank that has completed the fewest collectives, of those that print it."""
    states = [
        (int(match[1]), event)
        for event in evidence.of("status", "state")
        if (match := _ENQUEUED.search(event.text))
    ]
    return _of([event for _, event in sorted(states, key=lambda pair: pair[0])], first=True)


def first_error(evidence: Evidence) -> Answer:
    """The first line of level error in the order of files; lines without a time keep the last."""
    found: list[tuple[str, Place, str | None]] = []
    for file, rows in groupby(_records(evidence.job), key=itemgetter(0)):
        time = ""
        for _, line, record_time, level, text in rows:
            time = record_time if len(record_time) > len("0101 00:00:00") else time
            if level in ("E", "F") or re.match(r"[\w.]*(?:Error|Exception): ", text):
                found.append((time[-15:], (file.name, line), file.node))
                break
    found.sort(key=lambda row: row[0] or "~")
    nodes = [node for _, _, node in found if node is not None]
    return Answer([place for _, place, _ in found[:1]], list(dict.fromkeys(nodes)))


def keywords(evidence: Evidence) -> Answer:
    """All lines with a word for errors; nodes by their number."""
    return _matching(evidence, lambda text: bool(_KEYWORDS.search(text)))


def keyword_lists(evidence: Evidence) -> Answer:
    """Lines with a word of hardware or exceptions, without those that follow from others."""
    return _matching(
        evidence, lambda text: bool(_HARDWARE.search(text)) and not _SECONDARY.search(text)
    )


def rarest(evidence: Evidence) -> Answer:
    """Lines whose masked text occurs once in the job; nodes by their number."""
    seen = Counter(masked(text) for *_, text in _records(evidence.job))
    return _matching(evidence, lambda text: seen[masked(text)] == 1)


def _matching(evidence: Evidence, wanted: Callable[[str], bool]) -> Answer:
    places: list[Place] = []
    counts: Counter[str] = Counter()
    for file, line, _, _, text in _records(evidence.job):
        if wanted(text):
            places.append((file.name, line))
            counts.update([file.node] if file.node is not None else [])
    return Answer(places, [node for node, _ in counts.most_common()])


RULES: dict[str, Callable[[Evidence], Answer]] = {
    "prism": prism,
    "torchrun's root cause": torchrun_root_cause,
    "first error line": first_error,
    "keywords": keywords,
    "keyword lists": keyword_lists,
    "rarest lines": rarest,
    "lowest number of collectives": lowest_number,
}


def _of(events: list[Event], first: bool) -> Answer:
    chosen = events[:1] if first else events
    nodes = [event.node for event in events if event.node is not None]
    return Answer([(event.file, event.line) for event in chosen], list(dict.fromkeys(nodes)))


@lru_cache(1)
def _records(job: Job) -> list[tuple[LogFile, int, str, str, str]]:
    """File, line, time, level and text of each line; those of the last job are kept."""
    found = []
    for file in job.files:
        parts = Lines(habit=Habit(tasks=file.place == "batch"))
        for line, raw in lines(file.path, file.name, Intake()):
            record = parts.parse(decoded(raw))
            found.append((file, line, record.time, record.level, record.text))
    return found
