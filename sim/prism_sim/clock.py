"""The simulation's clock: SimPy's environment, counting whole nanoseconds.

Whole numbers make "at the same time" exact: events within one nanosecond are simultaneous, and no
rounding error separates them. 2^63 ns are 292 years.

Compiled code may run *ahead* of SimPy: it handles its own events until the next one of SimPy is
due. Every event takes a *turn* from one count, and simultaneous events happen in order of their
turns, whoever handles them.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Protocol

import simpy
from simpy.core import SimTime
from simpy.events import NORMAL, URGENT, EventPriority

IN_TURN = EventPriority(1)
"""SimPy's normal priority: events of one time happen in the order they were scheduled."""
LAST_TURN = 2**62
NEVER = 2**62


class Ahead(Protocol):
    """Code that has events of its own.

    Attributes
    ----------
    next_ns : time of its next event; events of this time take turns with those of SimPy.
    next_change_ns : time of its next change, which comes after all events of its time.
    """

    next_ns: int
    next_change_ns: int

    def run_until(self, time_ns: int, turn: int) -> bool:
        """Run until the event of SimPy that is due at ``time_ns``, with ``turn``.

        Returns whether it has called code that may have scheduled events of SimPy; if so, it may
        have stopped earlier.
        """


class Clock(simpy.Environment):
    """A SimPy environment whose time is an integer [ns], from 0.

    Attributes
    ----------
    turn : the last turn that an event has taken.
    ahead : code that runs ahead of SimPy's events, if any.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.turn = 0
        self.ahead: Ahead | None = None

    @property
    def now(self) -> int:
        """The current time [ns]."""
        return self._now  # type: ignore[return-value]  # SimPy allows floats; we add integers only

    def schedule(
        self, event: simpy.Event, priority: EventPriority = NORMAL, delay: SimTime = 0
    ) -> None:
        """Schedule ``event`` for ``delay`` from now, in the next turn."""
        self.turn += 1
        heappush(self._queue, (self._now + delay, priority, self.turn, event))

    def step(self) -> None:
        """Process the next event of SimPy, and before it all that runs ahead of it."""
        ahead, queue = self.ahead, self._queue
        while ahead is not None:
            time_ns, turn = NEVER, LAST_TURN
            if queue:
                time_ns, priority, turn, _ = queue[0]  # type: ignore[assignment]  # as for `now`
                turn = -1 if priority == URGENT else turn
            if ahead.next_ns > time_ns and ahead.next_change_ns >= time_ns:
                break
            if not ahead.run_until(time_ns, turn):
                break
        super().step()

    def advance(self, now_ns: int) -> None:
        """Set the time to ``now_ns``, which no event of SimPy precedes."""
        self._now = now_ns

    def happen(self, event: simpy.Event) -> None:
        """Process ``event`` at once."""
        event._ok, event._value = True, None
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]  # as SimPy
        for callback in callbacks or ():
            callback(event)

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
