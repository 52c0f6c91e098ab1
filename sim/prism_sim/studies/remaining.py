"""The remaining time of a series of similar tasks, from the time that the finished ones took."""

from __future__ import annotations

import time
from collections.abc import Callable

_MINUTE_S, _HOUR_S = 60, 3600
_FIRST = 3  # tasks whose time says little about the others


class Remaining:
    """Measures the rate at which tasks end.

    Parameters
    ----------
    now_s : a clock.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._began_s = now_s()

    def sentence(self, done: int, left: int) -> str:
        """A clause about the remaining time; empty if none is left, or too few tasks are done."""
        if done <= _FIRST:  # they also start processes, import and compile
            self._began_s = self._now_s()
        if done <= _FIRST or left <= 0:
            return ""
        seconds = (self._now_s() - self._began_s) / (done - _FIRST) * left
        return f", about {rounded(seconds)} left"


def rounded(seconds: float) -> str:
    """A duration without false precision.

    >>> rounded(0.3), rounded(95), rounded(1_900), rounded(9_000)
    ('1 s', '2 min', '32 min', '2.5 h')
    """
    if seconds < 1.5 * _MINUTE_S:
        return f"{max(1, round(seconds))} s"
    if seconds < 1.5 * _HOUR_S:
        return f"{round(seconds / _MINUTE_S)} min"
    return f"{seconds / _HOUR_S:.1f} h"
