"""The library of patterns: causes of confirmed cases, by the events that they had.

A case is the set of its templates. The cause of a new case is that of the most similar one
(Jaccard's index); cases of equal similarity share it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from llmlog.errors import LogError
from prism_common.errors import UserError
from prism_common.folders import updating
from prism_common.untrusted import parsed

_SIMILAR = 0.3
"""Least similarity."""


class Library:
    """Confirmed cases."""

    def __init__(self, cases: Iterable[tuple[frozenset[str], str]] = ()) -> None:
        self.cases = list(cases)
        self._learned: list[tuple[frozenset[str], str]] = []

    def learn(self, templates: Iterable[str], cause: str) -> None:
        """Add a confirmed case."""
        case = (frozenset(templates), cause)
        self.cases.append(case)
        self._learned.append(case)

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

    def add_to(self, path: Path) -> None:
        """Add what was learned to the library in a file, which other processes may do as well.

        After any failure, the file has either the old cases or all of them.

        Raises
        ------
        LogError : the file cannot be written, or holds something else.
        """
        try:
            with updating(path) as partial:
                stored = Library.read(path).cases + self._learned
                rows = [{"cause": cause, "templates": sorted(case)} for case, cause in stored]
                partial.write_text(json.dumps({"cases": rows}, indent=1), encoding="utf-8")
        except OSError as error:
            what = f"cannot be written ({error.strerror or error})"
            raise LogError(str(path), what, "give another file with --library") from None
        except UserError as error:
            raise LogError(str(path), error.problems[0].what, "give another file") from None

    @classmethod
    def read(cls, path: Path) -> Library:
        """Read what :meth:`add_to` wrote; an empty file has no cases yet.

        Raises
        ------
        LogError : it is not a library.
        """
        try:
            content = path.read_bytes() if path.is_file() else b"null"
            rows = parsed(content)["cases"] if content else []
            return cls((frozenset(map(str, row["templates"])), str(row["cause"])) for row in rows)
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"is not a library of patterns ({type(error).__name__}: {error})"
            raise LogError(str(path), what, "give a file that --confirm wrote") from None
