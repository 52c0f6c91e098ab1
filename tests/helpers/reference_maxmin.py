"""Max-min fairness from the textbook, in the simplest and slowest form.

Raise all rates together. Whenever a link is full or a flow reaches its cap, fix the rates of its
flows; repeat. This code shares no data structure and no order of arithmetic with the simulator.

Reference: Bertsekas and Gallager, Data Networks, 1992, section 6.5.2.
"""

from __future__ import annotations

from fractions import Fraction


def rates(capacity: list[float], uses: list[dict[int, float]], caps: list[float]) -> list[Fraction]:
    """Exact rates of entities; ``uses[i]`` maps a link to entity i's weight on it."""
    room = [Fraction(c) for c in capacity]
    rate = [Fraction(0)] * len(uses)
    rising = set(range(len(uses)))
    while rising:
        steps = [Fraction(caps[i]) - rate[i] for i in rising if caps[i] != float("inf")]
        for link, left in enumerate(room):
            weight = sum((Fraction(uses[i].get(link, 0)) for i in rising), Fraction(0))
            if weight:
                steps.append(left / weight)
        step = min(steps)
        for i in rising:
            rate[i] += step
            for link, weight in uses[i].items():
                room[link] -= Fraction(weight) * step
        full = {link for link, left in enumerate(room) if left == 0}
        rising = {i for i in rising if rate[i] < caps[i] and not full & uses[i].keys()}
    return rate
