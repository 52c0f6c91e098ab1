"""The library of patterns: causes of confirmed cases, by the templates that they had (Jaccard)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

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
