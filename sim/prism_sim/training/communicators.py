"""Communicators: a member's access to the collectives of its group, one call after another.

Every member of a group calls its collectives in the same order, as communication libraries
require; a communicator counts the calls of one member.
"""

from __future__ import annotations

import simpy

from prism_sim.clock import Clock
from prism_sim.training.stream import Call, CommStream


class GroupCommunicator:
    """Member number ``member`` of the group that communicates over ``stream``.

    Attributes
    ----------
    last : end of the most recent collective; None before the first.
    """

    def __init__(self, stream: CommStream, member: int) -> None:
        self._stream = stream
        self._member = member
        self._count = 0
        self.last: simpy.Event | None = None

    def join(
        self, operation: str, size_bytes: int, step: int, micro_batch: int, layer: int = -1
    ) -> simpy.Event:
        """Join the group's next collective, ``size_bytes`` per rank; the event fires at its end."""
        call = Call(operation, size_bytes, step, micro_batch, layer)
        self.last = self._stream.join(self._count, call, self._member)
        self._count += 1
        return self.last


class HybridCommunicator:
    """Hybrid sharding: shards inside a small group, replicas of them outside.

    A reduce-scatter runs inside the group. Right after it, each member all-reduces its shard with
    its counterparts in the other groups. An all-gather stays inside.

    Reference: Zhao et al., PyTorch FSDP, VLDB'23, section 3.2.2 (hybrid sharding).
    """

    def __init__(
        self, env: Clock, inside: GroupCommunicator, outside: GroupCommunicator, shards: int
    ) -> None:
        self._env = env
        self._inside = inside
        self._outside = outside
        self._shards = shards
        self.last: simpy.Event | None = None

    def join(
        self, operation: str, size_bytes: int, step: int, micro_batch: int, layer: int = -1
    ) -> simpy.Event:
        """Join the next collective, both halves of a reduce-scatter; the event fires at its end."""
        self.last = inner = self._inside.join(operation, size_bytes, step, micro_batch)
        if operation == "reduce_scatter":
            self.last = outer = self._env.event()

            def replicate(_: simpy.Event) -> None:
                share = -(-size_bytes // self._shards)
                ended = self._outside.join("all_reduce", share, step, micro_batch)
                assert ended.callbacks is not None
                ended.callbacks.append(lambda _: self._env.fire(outer))

            assert inner.callbacks is not None
            inner.callbacks.append(replicate)
        return self.last
