"""Members of the rings of a job without pipelines, by the bytes of their messages.

A ring of n members sends (n - 1) / n of a buffer, once or twice, in pieces of 1 / n. The odd part
of n - 1 therefore divides the bytes of a step.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Floats

FREQUENT = 0.02  # share of the records that have a size that is counted as frequent


def ring_members(cut: list[CutLane], nics: int, gpus_per_nic: int, least: int) -> tuple[int, float]:
    """The most probable number of members of the rings, and its posterior."""
    sizes = sorted({nics // d for d in (1, 2, 4, 8) if nics % d == 0 and nics // d >= least})
    sizes = sorted({*sizes, *(nics * gpus_per_nic // d for d in (1, 2) if gpus_per_nic > 1)})
    if not sizes:
        return nics, 0.5
    evidence = _evidence(cut)
    score = np.array([_score(n, evidence, nics) for n in sizes])
    posterior = np.exp(score - score.max())
    posterior /= posterior.sum()
    best = int(np.argmax(posterior))
    return sizes[best], float(posterior[best])


def _evidence(cut: list[CutLane]) -> list[tuple[float, bool]]:
    """Usual bytes in a step of each lane, and the most frequent message, which may only favour."""
    found: list[tuple[float, bool]] = []
    totals: list[float] = []
    for c in cut:
        values, often = np.unique(c.bytes[c.active], return_counts=True)
        if often.size and often.max() >= 0.5 * often.sum():
            totals.append(float(values[np.argmax(often)]))
    values, often = np.unique(totals, return_counts=True)
    found += [(float(v), False) for v in values[np.argsort(-often)][:3]]
    sizes = np.concatenate([c.lane.size for c in cut]) if cut else np.zeros(0)
    values, often = np.unique(sizes, return_counts=True)
    if often.size:
        found.append((float(values[np.argmax(often)]), True))
        frequent = values[often >= FREQUENT * sizes.size].astype(np.int64)
        common = float(np.gcd.reduce(frequent)) if frequent.size else 1.0
        found += [(v / common, False) for v, _ in found[:1] if common > 1 and v % common == 0]
    return found


def _score(n: int, evidence: list[tuple[float, bool]], nics: int) -> float:
    odd = n - 1
    while odd and odd % 2 == 0:
        odd //= 2
    bonus = 0.0
    while odd and odd % 3 == 0:
        odd //= 3
        bonus = 0.4
    score = {1: 1.0, 2: 1.0, 4: 0.5, 8: 0.5}.get(nics // n if n <= nics else 0, -1.5)
    for value, favours in evidence:
        fits = odd > 0 and value % (odd * (3 if bonus else 1)) == 0
        if fits:
            score += float(np.log(odd)) + bonus
        elif not favours:
            score -= 4.0
    return score


def frequent_bytes(cut: list[CutLane]) -> Floats:
    """Usual bytes in a step of each lane."""
    return np.array([float(np.median(c.bytes)) for c in cut])
