"""The simulation's clock: SimPy's environment, counting whole nanoseconds.

Whole numbers make "at the same time" exact: what ends within one nanosecond ends together,
and no rounding error ever splits an instant in two. 2^63 ns are 292 years.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

IN_TURN = EventPriority(1)
"""SimPy's normal priority: events of one time happen in the order they were scheduled."""
END_OF_INSTANT = EventPriority(9)
"""Behind everything else that happens at one time."""


class Clock(simpy.Environment):
    """A SimPy environment whose time is an integer [ns], from 0."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now(self) -> int:
        """The current time [ns]."""
        return self._now  # type: ignore[return-value]  # SimPy allows floats; we add integers only

    def call_at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Have ``call`` called at ``time_ns``, which must not be past."""
        timeout = self.timeout(time_ns - self.now)
        assert timeout.callbacks is not None
        timeout.callbacks.append(lambda _: call())

    def fire(
        self, event: simpy.Event, delay_ns: int = 0, priority: EventPriority = IN_TURN
    ) -> None:
        """Let ``event`` happen, with no value, ``delay_ns`` from now."""
        event._ok = True
        event._value = None
        self.schedule(event, priority, delay_ns)
