"""The communication stream of one data-parallel group: collectives, one after another.

Members join a collective when they come to it, in the same order everywhere, as a
communication library demands. It runs when the last member has joined and the one before
it is over; everybody's event fires when it ends. A member's rings (one a tensor-parallel
rank and NIC) run side by side; the collective ends with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import simpy

from prism_sim.clock import Clock
from prism_sim.training.collectives import Ring
from prism_sim.truth import KIND, NO_MICRO_BATCH, SpanLog


@dataclass
class _Collective:
    operation: str
    chunk_bytes: int
    step: int
    done: simpy.Event
    joined: list[tuple[int, int]] = field(default_factory=list)  # worker, time


class CommStream:
    """Collectives of ``members`` workers over ``rings``, in joining order.

    Parameters
    ----------
    env : the clock.
    rings : all rings of the group; each moves an equal share of a rank's bytes.
    rings_per_rank : how many of them serve one rank.
    members : workers in the group.
    log : where spans go.
    """

    def __init__(
        self,
        env: Clock,
        rings: Sequence[Ring],
        rings_per_rank: int,
        members: int,
        log: SpanLog,
    ) -> None:
        self._env = env
        self._rings = rings
        self._members = members
        self._pieces = members * rings_per_rank
        self._log = log
        self._queue: dict[int, _Collective] = {}
        self._next = 0
        self._open_rings = 0

    def join(
        self, number: int, operation: str, size_bytes: int, worker: int, step: int
    ) -> simpy.Event:
        """Have ``worker`` join the ``number``-th collective, of ``size_bytes`` a rank."""
        if number not in self._queue:
            chunk = -(-size_bytes // self._pieces)
            self._queue[number] = _Collective(operation, chunk, step, self._env.event())
        collective = self._queue[number]
        collective.joined.append((worker, self._env.now))
        self._try()
        return collective.done

    def _try(self) -> None:
        collective = self._queue.get(self._next)
        if self._open_rings or collective is None or len(collective.joined) < self._members:
            return
        self._open_rings = len(self._rings)
        for ring in self._rings:
            ended = self._env.event()
            assert ended.callbacks is not None
            ended.callbacks.append(self._ring_ended)
            ring.start(collective.operation, collective.chunk_bytes, ended)

    def _ring_ended(self, _: simpy.Event) -> None:
        self._open_rings -= 1
        if self._open_rings:
            return
        collective = self._queue.pop(self._next)
        self._next += 1
        kind, now = KIND[collective.operation], self._env.now
        for worker, since in collective.joined:
            self._log.add(worker, collective.step, NO_MICRO_BATCH, kind, since, now)
        collective.done.succeed()
        self._try()
