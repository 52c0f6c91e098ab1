"""Which part of the network explains that some transfers are slow and others are not?

Every *bundle* of transfers crosses parts of the network: NICs, links and switches. A slow bundle
crosses the culprit. A healthy one may cross it, too, for example a link with capacity to spare. The
*coverage* of a part is the share of slow bundles that cross it, weighted by how slow they are; its
*purity* is the share of the bundles crossing it that are slow. The best part has the largest
product of both. Parts that cannot be distinguished from the best are named with it: "X or Y".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COVERED = 0.8  # share of slow bundles that one culprit has to explain
PURE = 0.5  # share of the bundles across it that have to be slow
MOSTLY = 0.6  # score of a part that explains enough if no other explains more: two of three
CLOSE = 0.9  # of the best score: not distinguished from it


@dataclass(frozen=True)
class Part:
    """One part of the network, and how well it explains what is slow."""

    name: str
    coverage: float
    purity: float
    slow: int

    @property
    def score(self) -> float:
        """Product of coverage and purity, in [0, 1]."""
        return self.coverage * self.purity


def ranked(
    slow: Sequence[frozenset[str]],
    healthy: Sequence[frozenset[str]],
    weights: Sequence[float] | None = None,
) -> list[Part]:
    """All parts that slow bundles cross, the best explanation first.

    >>> best = ranked([frozenset("ab"), frozenset("ac")], [frozenset("bc")])[0]
    >>> best.name, best.coverage, best.purity
    ('a', 1.0, 1.0)
    """
    weights = weights or [1.0] * len(slow)
    covered, bad = _counted(slow, weights), _counted(slow, [1.0] * len(slow))
    good = _counted(healthy, [1.0] * len(healthy))
    parts = [
        Part(name, covered[name] / sum(weights), count / (count + good.get(name, 0)), int(count))
        for name, count in bad.items()
    ]
    return sorted(parts, key=lambda part: (-round(part.score, 6), part.name))


def equals(parts: Sequence[Part]) -> list[Part]:
    """The best part and all that explain nearly as much; empty if none explains enough."""
    able = [
        part
        for part in parts
        if (part.coverage >= COVERED and part.purity >= PURE) or part.score >= MOSTLY
    ]
    return [part for part in able if part.score >= CLOSE * able[0].score]


def _counted(bundles: Sequence[frozenset[str]], weights: Sequence[float]) -> Mapping[str, float]:
    counts: dict[str, float] = {}
    for bundle, weight in zip(bundles, weights, strict=True):
        for name in bundle:
            counts[name] = counts.get(name, 0) + weight
    return counts
