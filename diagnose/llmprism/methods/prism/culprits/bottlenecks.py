"""Which hops limit a slow ring?

All hops of a ring go at the pace of the slowest one. Two things tell them apart. A slow hop sends
for longer than usual, while the others wait between blocks, which records show if the exporter does
not bridge these silences. And nobody waits after the last round, so a slow hop ends later than the
others, by what one block takes longer. Either may mislead: acknowledgements cross other links, and
hops that wait end at other times than usual too. So where both show something, each counts half.

Rings of one collective begin each of its parts together, so all of them go at the pace of the
slowest one. Nobody waits after the last part: the slowest ring ends later than the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.parameters import BUSY, ENDS_APART, FALSE_HIT, IDLE, LAST_ROUND, LATEST
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian, spread


def bottlenecks(
    durations: Durations, connections: Ints, inside: Bools
) -> Mapping[int, float] | None:
    """Chance that each of the ``connections`` limits the others in a window; None if not shown."""
    if connections.size == 1:
        return {int(connections[0]): 1.0}
    busy, last = durations.traffic.of(connections)
    shown = [_by_sending(busy, inside), _by_ends(last, busy, inside)]
    known = [chance for chance in shown if chance is not None]
    if not known:
        return None
    return dict(zip(connections.tolist(), np.mean(known, axis=0).tolist(), strict=True))


def slowest_rings(durations: Durations, rings: Sequence[Ints], inside: Bools) -> Floats | None:
    """Chance that each ring limits the others of its collective in a window; None if not shown.

    Rings of one collective end together in other steps.
    """
    measured = [durations.traffic.of(ring) for ring in rings]
    busy, last = (
        np.array([np.fmax.reduce(one) for one in both]) for both in zip(*measured, strict=True)
    )
    apart = np.abs(last - nanmedian(last, axis=0))[:, ~inside]
    if not np.isfinite(apart).any() or np.nanmedian(apart) > LAST_ROUND * np.nanmedian(busy):
        return None
    return _by_ends(last, busy, inside)


def _by_ends(last: Floats, busy: Floats, inside: Bools) -> Floats | None:
    """Hops that end later than usual, beside the others; None if none does so clearly."""
    later = last - nanmedian(last, axis=0)
    more = nanmedian(later[:, inside], axis=1) - np.nan_to_num(nanmedian(later[:, ~inside], axis=1))
    ahead = np.fmax.reduce(more) - more
    longest = float(np.nan_to_num(np.fmax.reduce(ahead)))
    noise = float(np.nan_to_num(np.nanmedian(spread(later)))) / np.sqrt(max(int(inside.sum()), 1))
    last_round_ns = LAST_ROUND * more_in(nanmedian(busy, axis=0), inside, inside)
    if longest <= max(ENDS_APART * noise, last_round_ns):
        return None
    return np.where(np.nan_to_num(ahead, nan=np.inf) < LATEST * longest, 1.0, FALSE_HIT)


def more_in(values: Floats, inside: Bools, affected: Bools) -> float:
    """By how much the median of the affected steps exceeds that of those outside."""
    usual = np.nan_to_num(finite_median(values[~inside]))
    return float(np.nan_to_num(finite_median(values[affected]) - usual))


def _by_sending(busy: Floats, inside: Bools) -> Floats | None:
    """Hops that send for longer than usual, beside the others; None if all or none do."""
    during = nanmedian(busy[:, inside], axis=1)
    before = nanmedian(busy[:, ~inside], axis=1) if (~inside).any() else np.nanmin(during)
    longer = during - before
    noise = float(np.nan_to_num(np.nanmedian(spread(busy)))) / np.sqrt(max(int(inside.sum()), 1))
    most = float(np.nanmax(longer)) if np.isfinite(longer).any() else 0.0
    share = np.nan_to_num(longer / most) if most > ENDS_APART * noise else np.ones(longer.size)
    if share.min() > IDLE:
        return None
    return np.clip((share - IDLE) / (BUSY - IDLE), FALSE_HIT, 1.0)
