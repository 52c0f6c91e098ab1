"""Draws from all targets for some time, with a new seed each time, which is printed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from evaluation.attacks.targets import Target, targets

_AT_ONCE = 10
"""Examples of a target before the next one."""


def fuzz(seconds: float, number: int | None, say: Callable[[str], None]) -> Counter[str]:
    """Attack each target in turn until the time is over; return the numbers of examples.

    The first broken promise is raised, with the smallest example that was found and its seed.
    """
    start = random.SystemRandom().randrange(1 << 32) if number is None else number
    say(f"seed {start}: repeat with --seed {start}")
    ends_s = time.monotonic() + seconds
    tried: Counter[str] = Counter()
    every, turn = targets(), 0
    while time.monotonic() < ends_s or turn < len(every):
        one = every[turn % len(every)]
        say(f"{one.name}, seed {start + turn}") if turn < len(every) else None
        tried[one.name] += attack(one, start + turn, _AT_ONCE)
        turn += 1
    return tried


def attack(target: Target, number: int, examples: int) -> int:
    """Attack a target with some examples; return how many."""
    count = 0

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        verbosity=Verbosity.quiet,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.drawn)
    def example(drawn: object) -> None:
        nonlocal count
        count += 1
        target.check(drawn)

    try:
        example()
    except Exception as error:
        error.add_note(f"target {target.name!r}, seed {number}")
        raise
    return count
