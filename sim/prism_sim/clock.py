"""The simulation's clock: SimPy's environment, counting whole nanoseconds.

Whole numbers make "at the same time" exact: events within one nanosecond are simultaneous, and no
rounding error separates them. 2^63 ns are 292 years.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

IN_TURN = EventPriority(1)
"""SimPy's normal priority: events of one time happen in the order they were scheduled."""
END_OF_INSTANT = EventPriority(9)
"""The last priority: after all other events of one time."""


class Clock(simpy.Environment):
    """A SimPy environment whose time is an integer [ns], from 0."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now(self) -> int:
        """The current time [ns]."""
        return self._now  # type: ignore[return-value]  # SimPy allows floats; we add integers only

    def call_at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for ``time_ns``, which must not be in the past."""
        timeout = self.timeout(time_ns - self.now)
        assert timeout.callbacks is not None
        timeout.callbacks.append(lambda _: call())

    def fire(
        self, event: simpy.Event, delay_ns: int = 0, priority: EventPriority = IN_TURN
    ) -> None:
        """Trigger ``event`` with no value, ``delay_ns`` from now."""
        event._ok = True
        event._value = None
        self.schedule(event, priority, delay_ns)
