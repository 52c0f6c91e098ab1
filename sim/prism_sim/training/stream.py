"""The communication stream of one group: collectives, one after another.

Members join a collective when they call it, all in the same order, as communication libraries
require. It starts when the last member has joined and the previous one has finished (or fewer are
in flight than the library runs at the same time). The event of every member fires when it ends. A
collective's parts (one for each tensor-parallel rank and NIC) run at the same time; the collective
ends with the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.clock import Clock
from prism_sim.draws import Draws
from prism_sim.training.collectives import Collective
from prism_sim.training.collectives.base import NEVER_NS
from prism_sim.truth import SpanLog


class Call(NamedTuple):
    """A collective call: an operation on ``size_bytes`` per rank, and its step and micro-batch."""

    operation: str
    size_bytes: int
    step: int
    micro_batch: int
    layer: int


@dataclass(eq=False)
class _Pending:
    call: Call
    done: simpy.Event
    open_parts: int = 0
    joined_ns: dict[int, int] = field(default_factory=dict)  # by member


class CommStream:
    """Collectives of ``workers``, in the order of joining.

    Parameters
    ----------
    env : the clock.
    parts : parallel parts of every collective, for all tensor-parallel ranks.
    workers : number of each member in the log.
    log : receives spans.
    label : prefix of the operation's name in the truth; it distinguishes kinds of groups.
    ranks_each : ranks of a worker that are members of the same group, and join together.
    side_by_side : maximum number of parallel collectives.
    """

    def __init__(
        self,
        env: Clock,
        parts: Sequence[Collective],
        workers: Sequence[int],
        log: SpanLog,
        label: str = "",
        ranks_each: int = 1,
        side_by_side: int = 1,
    ) -> None:
        self._env = env
        self._parts = parts
        self._workers = workers
        self._log = log
        self._label = label
        self._ranks_each = ranks_each
        self._queue: dict[int, _Pending] = {}
        self._next = 0
        self._running = 0
        self._in_flight: list[_Pending] = []
        self._side_by_side = side_by_side
        self._free_ns = 0
        self._abandoned = False

    def join(self, number: int, call: Call, member: int) -> simpy.Event:
        """Let ``member`` join the ``number``-th collective; the event fires at its end."""
        if number not in self._queue:
            self._queue[number] = _Pending(call, self._env.event())
        collective = self._queue[number]
        collective.joined_ns[member] = self._env.now
        self._try()
        return collective.done

    def _try(self) -> None:
        collective = self._queue.get(self._next)
        if collective is None or len(collective.joined_ns) < len(self._workers):
            return
        if self._running == self._side_by_side or self._abandoned:
            return
        del self._queue[self._next]
        self._next += 1
        self._running += 1
        self._in_flight.append(collective)
        self._start(collective, self._ready_ns(collective))

    def abandon(self, failed_ns: int) -> None:
        """Write what members sent of collectives that nobody will finish.

        Some members never join, or a NIC has carried nothing since ``failed_ns``. No other
        collective starts, also if the NIC works again: then the processes are gone.
        """
        self._abandoned = True
        for collective in [*self._in_flight]:
            if max(collective.joined_ns.values()) >= failed_ns:
                self._in_flight.remove(collective)
                self._abandon(collective.call, self._ready_ns(collective), in_flight=True)
        for number in range(self._next, self._next + self._side_by_side - self._running):
            if number not in self._queue:
                return
            unfinished = self._queue.pop(number)
            self._abandon(unfinished.call, self._ready_ns(unfinished))

    def _ready_ns(self, collective: _Pending) -> list[int]:
        """When each rank is ready for ``collective``; NEVER_NS for one that has not joined."""
        return [
            max(self._free_ns, collective.joined_ns.get(member, NEVER_NS))
            for member in range(len(self._workers))
            for _ in range(self._ranks_each)
        ]

    def _abandon(self, call: Call, ready_ns: Sequence[int], in_flight: bool = False) -> None:
        for part in self._parts_for(call):
            if in_flight and hasattr(part, "cut_short"):
                part.cut_short(call.operation, call.size_bytes, ready_ns)
            elif not in_flight and hasattr(part, "abandon"):
                part.abandon(call.operation, call.size_bytes, ready_ns)

    def _start(self, collective: _Pending, ready_ns: list[int]) -> None:
        call, parts = collective.call, self._parts_for(collective.call)
        collective.open_parts = len(parts)
        for part in parts:
            part.start(call.operation, call.size_bytes, ready_ns, self._part_event(collective))

    def _parts_for(self, call: Call) -> Sequence[Collective]:
        """The parallel parts of ``call``; the same for every call, unless overridden."""
        return self._parts

    def _part_event(self, collective: _Pending) -> simpy.Event:
        ended = self._env.event()
        assert ended.callbacks is not None
        ended.callbacks.append(lambda _: self._part_ended(collective))
        return ended

    def _part_ended(self, collective: _Pending) -> None:
        collective.open_parts -= 1
        if collective.open_parts:
            return
        call, now = collective.call, self._env.now
        kind = self._label + call.operation
        if self._running == self._side_by_side:
            self._free_ns = now
        self._running -= 1
        if collective in self._in_flight:
            self._in_flight.remove(collective)
        common = self._ranks_each > 1
        number = self._log.communication(
            self._workers[0], common=common, size_bytes=call.size_bytes
        )
        phased = [part for part in self._parts_for(call) if hasattr(part, "take_phases")]
        phases = [phase for part in phased for phase in part.take_phases()]
        for member, since in collective.joined_ns.items():
            worker = self._workers[member]
            self._log.add(worker, call.step, call.micro_batch, kind, since, now, number)
            for phase, start_ns, end_ns in phases:
                own = self._label + phase
                self._log.add(worker, call.step, call.micro_batch, own, start_ns, end_ns, number)
        collective.done.succeed()
        self._try()


class Exchanges(Protocol):
    """An all-to-all of a group's tokens, of which each member receives another share."""

    def exchange(self, size_bytes: int, share: NDArray[np.float64], event: simpy.Event) -> None:
        """Send ``share[i, j]`` of member i's ``size_bytes`` to member j; ``event`` at the end."""

    def abandon(self, size_bytes: int, share: NDArray[np.float64], ready_ns: Sequence[int]) -> None:
        """Write what was sent between members that have joined."""


class ExpertStream(CommStream):
    """All-to-alls among ranks whose experts are not equally popular.

    Parameters
    ----------
    exchanges : the group's members once for every tensor-parallel rank.
    draws, key : source of the popularity, and the key of its draws.
    imbalance : gives the sigma of the lognormal popularity in a step.
    """

    def __init__(
        self,
        env: Clock,
        exchanges: Sequence[Exchanges],
        workers: Sequence[int],
        log: SpanLog,
        draws: Draws,
        key: tuple[str | int, ...],
        imbalance: Callable[[int], float],
    ) -> None:
        super().__init__(env, (), workers, log)
        self._exchanges = exchanges
        self._draws = draws
        self._key = key
        self._imbalance = imbalance
        self._load = np.ones(len(workers))

    def _start(self, collective: _Pending, ready_ns: list[int]) -> None:
        call, collective.open_parts = collective.call, len(self._exchanges)
        share = self._shares(call)
        self._load = share.sum(axis=0)
        for exchange in self._exchanges:
            exchange.exchange(call.size_bytes, _there(call, share), self._part_event(collective))

    def _abandon(self, call: Call, ready_ns: Sequence[int], in_flight: bool = False) -> None:
        if in_flight:
            return  # each pair has a record of its own when it ends
        share = _there(call, self._shares(call))
        for exchange in self._exchanges:
            exchange.abandon(call.size_bytes, share, ready_ns)

    def load(self, member: int) -> float:
        """Load of ``member`` from the most recent exchange, relative to the mean.

        No member begins the next exchange before all have computed the tokens of this one.
        """
        return float(self._load[member])

    def _shares(self, call: Call) -> NDArray[np.float64]:
        """Share of each sender's tokens that each member receives: one row per sender, with sum 1.

        Popularity is common to all senders; each sender deviates from it with half its sigma.
        """
        members = len(self._workers)
        key = (*self._key, call.layer, call.step, call.micro_batch)
        normal = self._draws.stream("experts", *key).standard_normal((members + 1, members))
        weight = np.exp(self._imbalance(call.step) * (normal[0] + 0.5 * normal[1:]))
        share: NDArray[np.float64] = weight / weight.sum(axis=1, keepdims=True)
        return share


def _there(call: Call, share: NDArray[np.float64]) -> NDArray[np.float64]:
    """``share`` of the tokens; the results take the way back."""
    return share.T if call.operation == "combine" else share
