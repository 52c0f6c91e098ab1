"""A job that follows an imported trace: its ranks and their connections.

Messages between two ranks are matched by tag and sequence number, collectives of a group by
sequence number; the consistency of the trace was checked before. A rank's position along each kind
of parallelism follows from its groups, its pipeline stage from the ranks that send it messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.kinds import AXES, DP, EP, PP, GroupKind
from prism_sim.cluster.network import Connection, Network
from prism_sim.cluster.storage import Storage
from prism_sim.draws import Draws
from prism_sim.scenario.graph import OPERATIONS, Task
from prism_sim.scenario.traced_job import TracedJobConfig
from prism_sim.training.collectives import ALGORITHMS, Collective, Group
from prism_sim.training.messages import MESSAGE_SPANS, MessagePath
from prism_sim.training.placed import PlacedJob
from prism_sim.training.player import MessageKey, Player
from prism_sim.training.stream import Call, CommStream
from prism_sim.truth import SpanLog

ALGORITHM = {
    "all_reduce": "ring",
    "reduce_scatter": "ring",
    "all_gather": "ring",
    "all_to_all": "all_to_all",
    "broadcast": "chain",
}
"""Algorithm of each operation of a trace."""

_SPANS = (
    "compute",
    "host",
    *(kind for ends in MESSAGE_SPANS for kind in ends),
    *(
        f"{label}{operation}"
        for label in ("", "expert_", *(f"{kind}_" for kind in get_args(GroupKind) if kind != "dp"))
        for operation in OPERATIONS
    ),
)
"""Kinds of spans of such a job in the truth."""


class GroupStream(CommStream):
    """The collectives of a group, of any operation; parts are built on first use."""

    def __init__(
        self, job: ReplayedJob, ranks: Sequence[int], connection: Connection, label: str
    ) -> None:
        numbers = [job.workers[rank].number for rank in ranks]
        super().__init__(job.env, (), numbers, job.log, label)
        gpus = job.gpus.ravel()
        self._group = Group([int(gpus[rank]) for rank in ranks], connection)
        self._network = job.network
        self._laid_out: dict[str, list[Collective]] = {}

    def _parts_for(self, call: Call) -> Sequence[Collective]:
        algorithm = ALGORITHM[call.operation]
        if algorithm not in self._laid_out:
            self._laid_out[algorithm] = ALGORITHMS[algorithm](self._group, self._network)
        return self._laid_out[algorithm]


class Membership(NamedTuple):
    """A rank's position in a group."""

    stream: GroupStream
    member: int
    calls: int  # of one iteration


class ReplayedJob(PlacedJob[TracedJobConfig, Player]):
    """One job that follows a trace; parameters as for any :class:`~.placed.PlacedJob`."""

    def __init__(
        self,
        model: TracedJobConfig,
        gpus: NDArray[np.int64],
        network: Network,
        log: SpanLog,
        draws: Draws,
        storage: Storage | None = None,
    ) -> None:
        super().__init__(model, gpus, network, log, model.ranks)
        log.declare(_SPANS)
        self.graph = graph = model.graph
        self.workers = [
            Player(self, rank, log.worker(model.name, rank, 1), graph.program(rank))
            for rank in range(model.ranks)
        ]
        self._members = self._memberships()
        self._paths: dict[tuple[int, int], MessagePath] = {}
        self._arrivals: dict[MessageKey, simpy.Event] = {}
        self._stage = _stages([graph.program(rank) for rank in range(model.ranks)])

    def arrival(self, key: MessageKey) -> simpy.Event:
        """The event of a message's arrival; created on first use, by sender or receiver."""
        event = self._arrivals.pop(key, None)
        if event is None:
            event = self._arrivals[key] = self.env.event()
        return event

    def send(
        self, src: int, dst: int, size_bytes: int, step: int, turn: int, event: simpy.Event
    ) -> None:
        """Send a message from rank ``src`` to ``dst``; ``event`` fires when it has arrived."""
        path = self._path(src, dst)
        sender, receiver, log = self.workers[src].number, self.workers[dst].number, self.log
        kinds = MESSAGE_SPANS[int(self._stage[dst] < self._stage[src])]

        def over(start_ns: int, end_ns: int) -> int:
            arrived_ns = end_ns + path.latency_ns
            log.add_message(sender, receiver, step, turn, kinds, start_ns, arrived_ns)
            return 0

        connections = self.layout.cluster.connections
        self.fabric.transfer(
            path.bundle, -(-size_bytes // connections), path.latency_ns, event, over
        )

    def join(self, rank: int, task: Task, iteration: int, turn: int, step: int) -> simpy.Event:
        """Let ``rank`` join its group's collective; the event fires at its end."""
        stream, member, calls = self._members[task.family, rank]
        call = Call(task.operation, task.amount, step, -1, -1)
        return stream.join(iteration * calls + turn, call, member)

    def places(self) -> dict[str, NDArray[np.int64]]:
        """Position of every rank in the largest of its groups of each kind.

        As elsewhere, expert-parallel ranks are taken from the replicas, so ``dp`` counts replicas
        of all experts.
        """
        found = {kind: np.zeros(self.model.ranks, np.int64) for kind in AXES if kind != PP}
        size = {kind: np.zeros(self.model.ranks, np.int64) for kind in found}
        for family in self.graph.families.values():
            for group in family.groups if family.kind in found else ():
                larger = [r for r in group if size[family.kind][r] < len(group)]
                found[family.kind][larger] = [group.index(rank) for rank in larger]
                size[family.kind][larger] = len(group)
        found[DP] //= np.maximum(size[EP], 1)
        return {axis: found.get(axis, self._stage) for axis in AXES}

    def _memberships(self) -> dict[tuple[str, int], Membership]:
        made: dict[tuple[str, int], Membership] = {}
        calls: dict[tuple[str, int], int] = defaultdict(int)
        for rank in range(self.model.ranks):
            for task in self.graph.program(rank):
                if task.kind == "collective":
                    calls[task.family, rank] += 1
        for number, (name, family) in enumerate(self.graph.families.items()):
            for group in family.groups:
                connection = Connection(self.model.name, family.kind, number)
                stream = GroupStream(self, group, connection, self._label(family.kind, group))
                for member, rank in enumerate(group):
                    made[name, rank] = Membership(stream, member, calls[name, rank])
        return made

    def _label(self, kind: str, group: Sequence[int]) -> str:
        """Prefix in the truth of the operations of such a group.

        If ranks share experts, groups of fewer replicas are those of experts.
        """
        if kind != DP:
            return f"{kind}_"
        families = self.graph.families.values()
        shared = any(family.kind == EP for family in families)
        largest = max(len(g) for f in families if f.kind == DP for g in f.groups)
        return "expert_" if shared and len(group) < largest else ""

    def _path(self, src: int, dst: int) -> MessagePath:
        if (src, dst) not in self._paths:
            gpus, network = self.gpus.ravel(), self.network
            connections = network.queue_pairs(Connection(self.model.name, PP))
            hops = [
                network.hop(int(gpus[src]), int(gpus[dst]), connection)
                for connection in connections
            ]
            self._paths[src, dst] = MessagePath(*network.bundle(hops))
        return self._paths[src, dst]


def _stages(programs: Sequence[Sequence[Task]]) -> NDArray[np.int64]:
    """Pipeline stage of every rank: number of hops from a rank that sends before it receives."""
    before: dict[int, int] = {}
    for rank, program in enumerate(programs):
        first = next((task for task in program if task.kind in ("send", "recv")), None)
        if first is not None and first.kind == "recv":
            before[rank] = first.peer

    def hops(rank: int) -> int:
        passed: list[int] = []
        while rank in before and rank not in passed:
            passed.append(rank)
            rank = before[rank]
        return 0 if rank in passed else len(passed)

    return np.array([hops(rank) for rank in range(len(programs))], np.int64)
