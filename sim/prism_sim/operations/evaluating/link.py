"""A link that all its transfers share equally, as a SimPy resource."""

from __future__ import annotations

import simpy

_ROUNDING = 1e-9


class SharedLink:
    """A link of ``rate`` units a second; ``n`` transfers at a time have a part of ``1/n`` each."""

    def __init__(self, env: simpy.Environment, rate: float) -> None:
        self._env, self._rate = env, rate
        self._left: dict[simpy.Event, float] = {}
        self._since = 0.0
        self._version = 0

    def transfer(self, size: float) -> simpy.Event:
        """An event that happens when ``size`` units have passed."""
        self._advance()
        done = self._env.event()
        self._left[done] = size
        self._plan()
        return done

    def _advance(self) -> None:
        passed = (self._env.now - self._since) * self._rate / max(1, len(self._left))
        self._since = self._env.now
        self._left = {done: left - passed for done, left in self._left.items()}

    def _plan(self) -> None:
        """Wait for the end of the shortest transfer, until another one begins."""
        self._version += 1
        if self._left:
            wait_s = max(0.0, min(self._left.values()) * len(self._left) / self._rate)
            timeout = self._env.timeout(wait_s, self._version)
            timeout.callbacks.append(self._finish)

    def _finish(self, timeout: simpy.Event) -> None:
        if timeout.value != self._version:
            return
        self._advance()
        shortest = min(self._left.values())
        ended = [done for done, left in self._left.items() if left <= shortest + _ROUNDING]
        for done in ended:
            del self._left[done]
            done.succeed()
        self._plan()
