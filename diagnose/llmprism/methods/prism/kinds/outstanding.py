"""How far one direction of a couple is ahead of the other, and how long both move together.

Activations that wait for their gradients are *outstanding*: one direction of a pipeline has sent
more than the other while neither moves. The two directions of an exchange move together.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.parameters import SMALL
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups
from prism_common.compiled import compiled


def share_outstanding(traffic: Traffic, step: Codes) -> tuple[float, float]:
    """Share of the silence inside steps in which one direction is ahead; by how much, mean."""
    couples = int(traffic.couple.max()) + 1
    typical = float(np.median(traffic.size))
    order = order_in_groups(traffic.couple, traffic.start_ns)
    order = order[_of_usual_steps(traffic, step)[order]]
    sums = _silences(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.size[order],
        traffic.forth[order], step[order], couples, typical / 2,
    )  # fmt: skip
    ahead_ns, byte_ns, silent_ns = (float(one.sum()) for one in sums)
    steps = max(1, np.unique(step[order]).size)
    volume = float(traffic.size[order].sum()) / couples / steps
    return (ahead_ns / silent_ns, byte_ns / silent_ns / volume) if silent_ns > 0 else (0.0, 0.0)


def _of_usual_steps(traffic: Traffic, step: Codes) -> Bools:
    """Records of steps that move hardly more than usual.

    What a program sends one way before it begins to train counts to the first step, in which it
    also rests for longer than in many others.
    """
    volume = np.bincount(step + 1, traffic.size)
    usual = float(np.median(volume[1:][volume[1:] > 0])) if volume[1:].any() else 0.0
    more = volume > (1 + SMALL) * usual
    more[0] = False
    usually: Bools = ~more[step + 1]
    return usually


@compiled
def _silences(
    couple: Codes,
    start_ns: Ints,
    end_ns: Ints,
    size: Ints,
    forth: Bools,
    step: Codes,
    couples: int,
    least: float,
) -> tuple[Floats, Floats, Floats]:
    """Silence inside steps of each couple: with one direction ahead [ns], the same times the
    bytes it is ahead by, and all of it [ns].

    The balance begins at zero in each step, so that a lost record disturbs one step only.
    """
    ahead_ns, byte_ns, silent_ns = np.zeros(couples), np.zeros(couples), np.zeros(couples)
    balance, last_end, last_couple, last_step = 0.0, 0, -1, -2
    for i in range(couple.size):
        c = couple[i]
        if c != last_couple or step[i] != last_step:
            balance, last_end = 0.0, start_ns[i]
        quiet = start_ns[i] - last_end
        if quiet > 0:
            silent_ns[c] += quiet
            byte_ns[c] += quiet * abs(balance)
            if abs(balance) >= least:
                ahead_ns[c] += quiet
        balance += size[i] if forth[i] else -size[i]
        last_end = max(last_end, end_ns[i])
        last_couple, last_step = c, step[i]
    return ahead_ns, byte_ns, silent_ns


def share_together(traffic: Traffic) -> float:
    """Share of the lesser direction's time in which both directions of a couple move."""
    order = order_in_groups(traffic.couple, traffic.start_ns)
    both, forth, back = _overlap(
        traffic.couple[order], traffic.start_ns[order], traffic.end_ns[order], traffic.forth[order]
    )
    least = min(forth, back)
    return both / least if least > 0 else 1.0


@compiled
def _overlap(
    couple: Codes, start_ns: Ints, end_ns: Ints, forth: Bools
) -> tuple[float, float, float]:
    """Time in which both directions move, the one, and the other [ns]; summed over couples."""
    both, one, other = 0.0, 0.0, 0.0
    ends = np.zeros(2, np.int64)
    last = -1
    for i in range(couple.size):
        if couple[i] != last:
            ends[:] = start_ns[i]
            last = couple[i]
        way = 1 if forth[i] else 0
        begin = max(start_ns[i], ends[way])
        fresh = max(0, end_ns[i] - begin)
        if way == 1:
            one += fresh
        else:
            other += fresh
        both += max(0, min(end_ns[i], ends[1 - way]) - begin)
        ends[way] = max(ends[way], end_ns[i])
    return both, one, other
