"""Lines to templates (Drain), counted by node: only lines of a new shape are parsed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from drain3.drain import Drain

from llmlog.ordinary import shape
from llmlog.prefixes import Habit
from llmlog.progress import Progress
from llmlog.reading import Job, LogFile
from llmlog.records import Lines, masked
from llmlog.streams import Intake, decoded, lines
from prism_common.recorder import looks_like_dump

PLACES = 50
"""Lines of a template that are kept, of each file."""
WINDOW = 10
"""Iterations of a window."""
_LONGEST, _MOST_SHAPES = 2000, 200_000
_LABEL = re.compile(rb"(\d+): ")


@dataclass
class Template:
    """Lines of one statement in one job.

    Attributes
    ----------
    text : of its first line, with masks for numbers and paths; ``level`` is that of the line.
    nodes : number of lines by node; None is the scheduler.
    places : file, line and node of its first lines in each file.
    earlier : whether it also occurs before the last window of iterations.
    """

    text: str
    level: str
    nodes: Counter[str | None] = field(default_factory=Counter)
    places: list[tuple[str, int, str | None]] = field(default_factory=list)
    earlier: bool = False


@dataclass
class Counted:
    """The templates of a job, by the number that they have in all jobs, and its progress."""

    job: Job
    templates: dict[int, Template] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)


class Miner:
    """Numbers of templates, the same in all jobs that one object reads."""

    def __init__(self) -> None:
        self._drain = Drain(depth=4, sim_th=0.4, max_children=100)
        self._known: dict[bytes, tuple[int, str, str]] = {}

    def count(self, job: Job, intake: Intake) -> Counted:
        """Read all lines of a job."""
        found = Counted(job)
        for file in job.files:
            if not looks_like_dump(file.path):
                self._read(file, found, intake)
        found.progress.settle()
        return found

    def _read(self, file: LogFile, found: Counted, intake: Intake) -> None:
        labelled = file.place == "batch"
        kept: Counter[int] = Counter()
        first: dict[int, int] = {}
        begun = len(found.progress.iterations)
        for line, raw in lines(file.path, file.name, intake):
            number, text, level = self._number(raw, labelled)
            if b"iteration" in raw or b"step=" in raw:
                found.progress.read(_parts(labelled).parse(decoded(raw)).text, file.name, line)
            node = file.node
            if labelled and (match := _LABEL.match(raw)) and int(match[1]) < len(found.job.nodes):
                node = found.job.nodes[int(match[1])]
            template = found.templates.get(number)
            if template is None:
                template = found.templates[number] = Template(text, level)
            template.nodes[node] += 1
            first.setdefault(number, line)
            kept[number] += 1
            if kept[number] <= PLACES:
                template.places.append((file.name, line, node))
        window = found.progress.iterations[begun:][-WINDOW:]
        for number, line in first.items():
            found.templates[number].earlier |= bool(window) and line < window[0].line

    def _number(self, raw: bytes, labelled: bool) -> tuple[int, str, str]:
        key = shape(raw[:_LONGEST])
        known = self._known.get(key)
        if known is None:
            record = _parts(labelled).parse(decoded(raw[:_LONGEST]))
            text = masked(record.text)
            cluster, _ = self._drain.add_log_message(text)
            known = cluster.cluster_id, text, record.level
            if len(self._known) < _MOST_SHAPES:
                self._known[key] = known
        return known


@cache
def _parts(labelled: bool) -> Lines:
    """Takes lines apart; in a file of the whole job they begin with the number of their node."""
    return Lines(habit=Habit(tasks=labelled))


# The library of patterns: causes of confirmed cases, by the templates that they had (Jaccard).

_SIMILAR = 0.3
"""Least similarity."""


class Library:
    """Confirmed cases."""

    def __init__(self, cases: Iterable[tuple[frozenset[str], str]] = ()) -> None:
        self.cases = list(cases)

    def learn(self, templates: Iterable[str], cause: str) -> None:
        """Add a confirmed case."""
        self.cases.append((frozenset(templates), cause))

    def causes(self, templates: Iterable[str]) -> dict[str, float]:
        """Causes with their shares among the most similar cases, the most frequent first."""
        own, best, found = frozenset(templates), _SIMILAR, Counter[str]()
        for case, cause in self.cases:
            both = len(own & case)
            similarity = both / max(1, len(own) + len(case) - both)
            if similarity > best:
                best, found = similarity, Counter()
            if similarity == best:
                found[cause] += 1
        total = sum(found.values())
        return {cause: count / total for cause, count in found.most_common()}

    def write(self, path: Path) -> None:
        """Write all cases."""
        rows = [{"cause": cause, "templates": sorted(case)} for case, cause in self.cases]
        path.write_text(json.dumps({"cases": rows}, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Library:
        """Read what :meth:`write` wrote."""
        rows = json.loads(path.read_text(encoding="utf-8"))["cases"]
        return cls((frozenset(row["templates"]), row["cause"]) for row in rows)
