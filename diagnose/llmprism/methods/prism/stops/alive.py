"""Which of the two ends of a message that never came is alive.

A rank that hangs receives what others still send, and so does its NIC. A rank that sends anything
later does not hang. Neither does one whose tensor-parallel group worked on: the NICs of a group
send at the same moments, and if one of them has sent the message, all of its ranks have done the
pass. A NIC that carries anything later is not the silent one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.stops.tails import Tail, quiet_until_ns
from llmprism.numerics.arrays import Ints

LOCKSTEP = 1e-3  # of the time between two messages: replicas differ by more, by noise alone


class Sends(Protocol):
    """What an endpoint sends: when it began each message, in order [ns]."""

    @property
    def sent_ns(self) -> Ints:
        """In the unfinished step."""

    @property
    def usually_sent_ns(self) -> Ints:
        """In finished steps."""


def alive_or(
    context: Context,
    tail: Tail,
    sender: int,
    goals: Sequence[int],
    ready_ns: Mapping[int, int],
    group_went_on: Callable[[], bool],
) -> int:
    """``sender``, or the receiver of its next message, if that is silent and the sender is not.

    ``ready_ns`` is since when ranks have all that they need for a message that they never sent, and
    ``group_went_on`` whether the sender's group sent it. Nothing of a collective comes before both
    ends are there, so a rank that joins one does not hang. What ends shortly before the job goes on
    shows nothing, as the NIC may be back by then.
    """
    if len(goals) != 1 or goals[0] in ready_ns:
        return sender
    flows, goal = context.flows, goals[0]
    later = flows.start_ns > ready_ns[sender]
    if tail.next_ns is not None:
        later &= flows.end_ns < quiet_until_ns(ready_ns[sender], tail.next_ns)
    if ((flows.src[later] == goal) | (flows.dst[later] == goal)).any():
        return sender
    joins = tail.rows.get("dp", np.empty(0, np.int64))
    joins = joins[flows.start_ns[joins] > ready_ns[sender]]
    if (flows.src[later] == sender).any() or (flows.dst[joins] == sender).any():
        return goal
    return goal if (flows.dst[later] == sender).any() and group_went_on() else sender


def worked_on(context: Context, job: JobView, end: int, learned: Callable[[int], Sends]) -> bool:
    """Whether a NIC beside ``end``, in lockstep with it, sent the message that ``end`` never sent.

    Then the rank does not hang: all of a tensor-parallel group need each other for a pass.
    """
    ends, servers = job.phases.endpoints, context.topology.servers
    stage = job.pipelines.stage[ends == end]
    beside = ends[(servers[ends] == servers[end]) & (job.pipelines.stage == stage) & (ends != end)]
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    own = learned(end)
    return any(
        other.sent_ns.size > own.sent_ns.size
        and in_lockstep(own.usually_sent_ns, other.usually_sent_ns, tick_ns)
        for other in map(learned, beside.tolist())
    )


def in_lockstep(one_ns: Ints, other_ns: Ints, tick_ns: float) -> bool:
    """Whether two endpoints begin their messages, in order, at the same moments.

    A clock that is too coarse to show the opposite shows nothing.
    """
    if one_ns.size != other_ns.size or one_ns.size < 2:
        return False
    near_ns = LOCKSTEP * float(np.median(np.diff(one_ns)))
    return tick_ns <= near_ns and float(np.median(np.abs(one_ns - other_ns))) <= near_ns
