"""The communication stream of one data-parallel group: collectives, one after another.

Members join a collective when they come to it, in the same order everywhere, as a
communication library demands. It runs when the last member has joined and the one before
it is over; everybody's event fires when it ends. A collective's parts (one a tensor-parallel
rank and NIC) run side by side; the collective ends with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import simpy

from prism_sim.clock import Clock
from prism_sim.training.collectives import Collective
from prism_sim.truth import KIND, SpanLog


@dataclass
class _Pending:
    operation: str
    size_bytes: int
    step: int
    micro_batch: int
    done: simpy.Event
    joined_ns: dict[int, int] = field(default_factory=dict)  # by member


class CommStream:
    """Collectives of ``members`` workers over ``rings``, in joining order.

    Parameters
    ----------
    env : the clock.
    parts : what runs side by side in every collective, for all tensor-parallel ranks.
    workers : number of each member in the log.
    log : where spans go.
    """

    def __init__(
        self,
        env: Clock,
        parts: Sequence[Collective],
        workers: Sequence[int],
        log: SpanLog,
    ) -> None:
        self._env = env
        self._parts = parts
        self._workers = workers
        self._log = log
        self._queue: dict[int, _Pending] = {}
        self._next = 0
        self._open_parts = 0
        self._free_ns = 0

    def join(
        self,
        number: int,
        operation: str,
        size_bytes: int,
        member: int,
        step: int,
        micro_batch: int,
    ) -> simpy.Event:
        """Have ``member`` join the ``number``-th collective, of ``size_bytes`` a rank."""
        if number not in self._queue:
            self._queue[number] = _Pending(
                operation, size_bytes, step, micro_batch, self._env.event()
            )
        collective = self._queue[number]
        collective.joined_ns[member] = self._env.now
        self._try()
        return collective.done

    def _try(self) -> None:
        collective = self._queue.get(self._next)
        if self._open_parts or collective is None or len(collective.joined_ns) < len(self._workers):
            return
        self._open_parts = len(self._parts)
        ready_ns = [max(self._free_ns, collective.joined_ns[m]) for m in range(len(self._workers))]
        for part in self._parts:
            ended = self._env.event()
            assert ended.callbacks is not None
            ended.callbacks.append(self._part_ended)
            part.start(collective.operation, collective.size_bytes, ready_ns, ended)

    def _part_ended(self, _: simpy.Event) -> None:
        self._open_parts -= 1
        if self._open_parts:
            return
        collective = self._queue.pop(self._next)
        self._next += 1
        kind, now = KIND[collective.operation], self._env.now
        self._free_ns = now
        for member, since in collective.joined_ns.items():
            worker, step, mb = self._workers[member], collective.step, collective.micro_batch
            self._log.add(worker, step, mb, kind, since, now)
        collective.done.succeed()
        self._try()
