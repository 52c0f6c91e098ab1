"""Kinds of lines, by the formats of the tools that print them: data in the TOML files beside this
module.

A row has the ``pattern`` of a kind of line, a real ``line`` of it (names changed), and the
``stack``, ``since`` (version) and ``source`` that print it. Its ``group`` says what it can be
in the causal structure of a failure:

- ``fault``: states a fault of the part that prints it, or of a part it names;
- ``reaction``: a part notices that another no longer answers;
- ``awaited``: names the ranks that the others waited for;
- ``report``: an agent or the scheduler says that a process ended;
- ``teardown``: a process is ended by another;
- ``slow``: bad only if the job is slow at that time;
- ``moment``: all ranks pass it together, which shows how clocks differ;
- ``advice``: general sentences, and ``benign``: errors that were mended.

The first kind that matches counts: files are read in the order of :data:`_FILES`. ``tool``
limits a kind to lines of one tool, ``word`` is a text that every such line has, and ``causes``
are shares of causes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

_FILES = ("kernel", "pytorch", "nccl", "launchers", "accelerators")


@dataclass(frozen=True, kw_only=True)
class _Row:
    """What every row has."""

    pattern: re.Pattern[str]
    line: str
    stack: str
    source: str
    since: str = "any"


@dataclass(frozen=True, kw_only=True)
class Kind(_Row):
    """A kind of line; see the module."""

    name: str
    group: str
    tool: str = ""
    word: str = ""
    causes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Meaning(_Row):
    """What a text of an exception says about its cause: shares of causes."""

    causes: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Reader(_Row):
    """A line of a trainer that shows progress; see ``progress.toml`` for the groups."""

    word: str

    @property
    def general(self) -> bool:
        """Whether it is of no trainer in particular."""
        return self.stack == "any trainer"


@dataclass(frozen=True, kw_only=True)
class Verdict(Kind):
    """What a speaker says of a subject; see ``statements.toml``.

    ``needs`` are the subjects of which one has to be named, ``says`` those in ``line``.
    """

    needs: str
    says: dict[str, str]
    stack: str = "launchers, monitors, orchestrators"


def content_of(name: str) -> dict[str, Any]:
    """The content of a file of the catalogue."""
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _rows(name: str, table: str) -> Iterator[dict[str, Any]]:
    """Rows of a file; what its ``common`` says holds for all of them."""
    content = content_of(name)
    for row in content[table]:
        near = _near(content.get("words", {}), row.pop("near", ()))
        pattern = re.compile(near + row["pattern"], re.IGNORECASE if near else re.NOFLAG)
        yield content.get("common", {}) | row | {"pattern": pattern}


def _near(words: dict[str, str], pairs: Iterable[tuple[str, str]]) -> str:
    """Alternatives of a pattern: a word of one class, and within a clause one of another."""
    return "".join(
        rf"(?:\b{words[first]}.{{0,80}}?(?<![a-z-]){words[second]})|" for first, second in pairs
    )


KINDS = tuple(Kind(**row) for name in _FILES for row in _rows(name, "kind"))
MEANINGS = tuple(Meaning(**row) for row in _rows("meanings", "meaning"))
READERS = tuple(Reader(**row) for row in _rows("progress", "reader"))
MARKS = tuple((str(row["what"]), row["pattern"]) for row in _rows("progress", "mark"))
"""Lines about phases: ``launch``, ``begun``, ``ended``, ``phase``, and both ends of pauses."""
MARK_WORDS = (
    "load", "resum", "train", "sav", "eval", "valid", "run", "omp_num", "restart", "nnodes",
    "cmd =", "elastic", "exiting", "deepspeed", "requeue", "finetun",
)  # fmt: skip
"""Words that such lines have, one of them each, in small letters."""
LAYOUTS: dict[str, list[str]] = content_of("layouts")["axes"]
"""Names of sizes of a layout, by axis."""
SUBJECTS = tuple(row["pattern"] for row in _rows("statements", "subject"))
VERDICTS = tuple(Verdict(**row) for row in _rows("statements", "verdict"))
CAUSES = {kind.name: kind.causes for kind in (*reversed(KINDS), *VERDICTS) if kind.causes}
"""Shares of causes of each kind, by its first row that has some."""

REACTIONS = re.compile(
    r"Watchdog caught collective|ncclRemoteError|Connection closed by (?:remote )?peer"
    r"|Connection reset by peer"
    r"|remote process exited or there was a network error|Broken pipe|\bHCCL\b.*(?:time.?out"
    r"|EI000[26])"
    r"|ERR02200 DIST call hccl|Getting socket times out|Notify register times out|recvValue failed"
)
"""An exception with such a text says that another part failed."""
TIMED_OUT = re.compile(
    r"Timed out waiting \d+\s?ms for (?:send|recv) operation|Notify register times out"
    r"|Getting socket times out"
)
"""An exception with such a text is a rank that waits for another (gloo/transport/tcp, HCCL)."""


def classify(tool: str, text: str) -> tuple[Kind, re.Match[str]] | None:
    """The kind of a line; None for ordinary output."""
    for kind in KINDS:
        if (kind.tool and kind.tool != tool) or (kind.word and kind.word not in text):
            continue
        if match := kind.pattern.search(text):
            return kind, match
    return None
