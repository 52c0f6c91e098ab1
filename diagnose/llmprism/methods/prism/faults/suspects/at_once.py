"""Several things that are slow at once: what each of them costs, and whether both are there.

Where two stretches overlap, the steps that only one of them has show what it costs alone, and the
rest of what the common steps are longer is the other one. Two views of one fault have one level:
steps are as long wherever it is seen. So two things are slow if there are two levels: steps that
only one stretch has are longer than healthy ones, and those of both are longer by far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from llmprism.numerics.arrays import Bools, Floats

Stretch = tuple[int, int]  # first and last step

FEWEST = 2  # steps that show that there is a level: one may be a spike
LONGER, DEVIATIONS = 0.02, 3.0  # of a healthy step, and of how much they vary: a level of its own
BY_FAR = 2.0  # times what one of both costs alone: as much for the other one


def apart_ns(duration_ns: Floats, own: Stretch, others: Sequence[Stretch]) -> Floats:
    """Lengths of steps without what ``others`` cost in them [ns].

    Where no step shows what another one costs alone, the steps of the stretch ``own`` that have
    no other show what ``own`` costs. Else they stay as long as they are.
    """
    inside = [_has(duration_ns.size, stretch) for stretch in (own, *others)]
    healthy = ~reduce(np.logical_or, inside) & np.isfinite(duration_ns)
    if healthy.sum() < FEWEST:
        return duration_ns
    normal_ns = float(np.median(duration_ns[healthy]))
    level_ns = [_alone_ns(duration_ns, inside, place) - normal_ns for place in range(len(inside))]
    lengths_ns = duration_ns.copy()
    for step in np.flatnonzero(reduce(np.logical_or, inside[1:])).tolist():
        beside = [level_ns[place] for place in range(1, len(inside)) if inside[place][step]]
        if np.isfinite(beside).all():
            lengths_ns[step] -= sum(max(0.0, one) for one in beside)
        elif inside[0][step] and np.isfinite(level_ns[0]):
            lengths_ns[step] = normal_ns + level_ns[0]
    return lengths_ns


def none_of(others: Sequence[Stretch], own: Stretch, count: int) -> Bools:
    """Which of ``count`` steps are in none of ``others``, or are in ``own``."""
    every = [_has(count, stretch) for stretch in others]
    return _has(count, own) | ~reduce(np.logical_or, every, np.zeros(count, np.bool_))


def are_both_there(duration_ns: Floats, one: Stretch, other: Stretch) -> bool:
    """Whether steps show two levels: those of one stretch only, and those of both.

    The first and the last step of a stretch may be slow in part only, so they show no level.
    """
    inside = [_has(duration_ns.size, stretch) for stretch in (one, other)]
    both = inside[0] & inside[1]
    long_ns = _known(duration_ns[both])
    healthy_ns = _known(duration_ns[~(inside[0] | inside[1])])
    if long_ns.size < FEWEST or healthy_ns.size < FEWEST:
        return False
    normal_ns = float(np.median(healthy_ns))
    spread_ns = float(np.median(np.abs(healthy_ns - normal_ns)))
    least_ns = normal_ns + max(LONGER * normal_ns, DEVIATIONS * spread_ns)
    most_ns = normal_ns + (float(np.quantile(long_ns, 0.25)) - normal_ns) / BY_FAR
    for own, stretch in zip(inside, (one, other), strict=True):
        alone = own & ~both
        alone[[stretch[0], stretch[1]]] = False
        alone_ns = _known(duration_ns[alone])
        if alone_ns.size >= FEWEST and least_ns < alone_ns.min() and alone_ns.max() < most_ns:
            return True
    return False


def _has(count: int, stretch: Stretch) -> Bools:
    """Which of all steps a stretch has."""
    steps = np.arange(count)
    return (stretch[0] <= steps) & (steps <= stretch[1])


def _alone_ns(duration_ns: Floats, inside: Sequence[Bools], place: int) -> float:
    """Length of the steps that only one stretch has [ns]; NaN if they do not show it.

    Another one may last for a part of the steps beside its stretch.
    """
    others = reduce(np.logical_or, (own for i, own in enumerate(inside) if i != place))
    alone = inside[place] & ~others & np.isfinite(duration_ns)
    if not alone.any():
        return np.nan
    beside = np.zeros_like(others)
    beside[1:] |= others[:-1]
    beside[:-1] |= others[1:]
    clear = alone & ~beside
    return float(np.median(duration_ns[clear if clear.any() else alone]))


def _known(lengths_ns: Floats) -> Floats:
    return lengths_ns[np.isfinite(lengths_ns)]
