"""Messages that start together; only shared links couple them.

Each is a flow of its own. The exchange ends with the arrival of the last one. If a member never
joins, the messages between the others are sent, each when both of its ends have joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.network import Hop, Network
from prism_sim.cluster.templates import HIDDEN
from prism_sim.cluster.wire import TRAIN, Trains
from prism_sim.training.collectives.base import Collective, Group, shared


class Uncoupled:
    """Equal messages between given pairs of members of ``group``.

    Every queue pair of the group's connection carries an equal part.

    Parameters
    ----------
    pairs : sender and receiver of each message, as places in the group.
    parts : number of messages in a rank's buffer.
    """

    def __init__(
        self, group: Group, pairs: Iterable[tuple[int, int]], parts: int, network: Network
    ) -> None:
        connections = network.queue_pairs(group.connection)
        both = [(pair, one) for pair in pairs for one in connections]
        self._hops = [network.hop(group.gpus[a], group.gpus[b], one) for (a, b), one in both]
        self._pairs = np.array([pair for pair, _ in both])
        self._pieces = parts * len(connections)
        self._network = network
        self._bundle, self._latency_ns = network.bundle(self._hops)

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Send everything now; see :class:`~.base.Collective`."""
        piece = shared(size_bytes, self._pieces)
        self._network.fabric.transfer(self._bundle, piece, self._latency_ns, event)

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write what was sent between members; see :class:`~.base.PartialCollective`."""
        sizes = np.full(len(self._hops), shared(size_bytes, self._pieces))
        starts_ns = np.array(ready_ns)[self._pairs].max(axis=1)
        self._network.observer.observe(lone_messages(self._hops, sizes, starts_ns, self._network))


def lone_messages(
    hops: Sequence[Hop], sizes: NDArray[np.int64], starts_ns: NDArray[np.int64], network: Network
) -> Trains:
    """Those messages that end until now, if each link is shared by all that use it."""
    sent = np.flatnonzero(starts_ns < network.env.now)
    chosen = [hops[i] for i in sent.tolist()]
    templates, capacity = network.fabric.templates, network.fabric.capacities()
    each = [templates.links_of(templates.last_choice(hop.template)) for hop in chosen]
    users = np.zeros(len(capacity))
    for links, shares in each:
        users[links] += shares
    rate = [float((capacity[links] / users[links]).min()) for links, _ in each]
    trains = np.zeros(sent.size, TRAIN)
    trains["route"] = [hop.route for hop in chosen]
    trains["start_ns"], trains["bursts"], trains["burst_bytes"] = starts_ns[sent], 1, sizes[sent]
    trains["burst_ns"] = trains["period_ns"] = sizes[sent] / np.array(rate)
    ends_ns = trains["start_ns"] + trains["burst_ns"]
    seen: Trains = trains[(trains["route"] != HIDDEN) & (ends_ns <= network.env.now)]
    return seen


def shift(group: Group, network: Network) -> list[Collective]:
    """Lay out a shift: every member of a ring sends a message to the next member, once.

    Ring attention is a sequence of shifts.
    """
    members = len(group.gpus)
    if members == 1:
        return []
    pairs = [(member, (member + 1) % members) for member in range(members)]
    return [Uncoupled(group, pairs, 1, network)]


def all_to_all(group: Group, network: Network) -> list[Collective]:
    """Lay out an all-to-all: every rank sends every other an equal part of its buffer at once.

    Each sends (n - 1) / n of its buffer (nccl-tests' bus bandwidth factor).
    """
    members = range(len(group.gpus))
    if len(members) == 1:
        return []
    pairs = [(a, b) for a in members for b in members if a != b]
    return [Uncoupled(group, pairs, len(members), network)]
