"""The communication groups of a job, and the communicators of their members.

Members of a stage are its tensor-parallel groups, numbered as Megatron-LM numbers ranks:
context-parallel rank fastest, then expert-parallel rank, then the rest of the replica's
number. Parameters that all members hold are reduced over all of them; those of experts only
over members with the same expert-parallel rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prism_common.kinds import DP, OTHER
from prism_sim.cluster.network import Connection, Network
from prism_sim.scenario.library import Library
from prism_sim.training.collectives import ALGORITHMS, Builder, Collective, Group
from prism_sim.training.collectives.ring import rings
from prism_sim.training.collectives.segmented import segmented
from prism_sim.training.communicators import GroupCommunicator, HybridCommunicator
from prism_sim.training.context import JobContext
from prism_sim.training.program import Communicator
from prism_sim.training.stream import CommStream

NORM_BYTES = 4
"""Bytes of a norm or a loss: one fp32 number."""

Member = tuple[int, int]
"""Stage and number within it."""

FINAL_SPANS = ("other_all_reduce",)
"""Kinds of spans of final collectives in the truth."""


class FinalCollective(NamedTuple):
    """A collective that everything waits for before the update."""

    communicator: Communicator
    operation: str
    size_bytes: int


class JobGroups:
    """Opens the groups of a job.

    Parameters
    ----------
    context : of the job.
    numbers : number in the log of every worker, by stage and member.
    """

    def __init__(self, context: JobContext, numbers: Sequence[Sequence[int]]) -> None:
        self.context = context
        self.numbers = numbers
        self._config = context.config
        self._opened: dict[tuple[object, ...], list[GroupCommunicator]] = {}

    def gradients(self, stage: int) -> list[Communicator]:
        """Communicators for the parameters that every member of ``stage`` holds.

        Other stages may hold the same. Empty if nobody else does.
        """
        config = self._config
        shards, members = config.hybrid_shards, range(config.members)
        stages = self._alike(stage)
        if config.members * len(stages) == 1:
            return []
        if shards is None or shards == config.members:
            return self._shared(stage, "", members)
        inside = [
            self._reducing(stage, range(first, first + shards))
            for first in range(0, config.members, shards)
        ]
        outside = [
            self._reducing(stage, range(offset, config.members, shards), connections=1)
            for offset in range(shards)
        ]
        places = (divmod(member, shards) for member in members)
        return [
            HybridCommunicator(
                self.context.env, inside[turn][offset], outside[offset][turn], shards
            )
            for turn, offset in places
        ]

    def expert_gradients(self, stage: int) -> list[Communicator]:
        """Communicators for the experts that each member of ``stage`` holds.

        Empty if no two ranks hold the same experts.
        """
        config = self._config
        if config.mixture is None or config.members * len(self._alike(stage)) == config.ep:
            return []
        opened: dict[int, Communicator] = {}
        for rank in range(config.ep):
            alike = [m for m in range(config.members) if m // config.cp % config.ep == rank]
            own = self._shared(stage, "expert_", alike, connections=2)
            opened |= dict(zip(alike, own, strict=True))
        return [opened[member] for member in range(config.members)]

    def _alike(self, stage: int) -> tuple[int, ...]:
        """The stages that hold the same layers as ``stage``."""
        return self.context.schedule.alike(stage, self._config.pp)

    def _shared(
        self, stage: int, label: str, members: Sequence[int], connections: int = 0
    ) -> list[Communicator]:
        """Communicators of ``members`` in ``stage``, who reduce with those in stages alike."""
        stages = self._alike(stage)
        key = (stages, label, tuple(members))
        if key not in self._opened:
            everybody = [(each, m) for each in stages for m in members]
            self._opened[key] = self._reducing_all(everybody, connections, label)
        first = stages.index(stage) * len(members)
        return [*self._opened[key][first : first + len(members)]]

    def final_collectives(self) -> dict[Member, list[FinalCollective]]:
        """Collectives between the reduction of gradients and the update."""
        made: dict[Member, list[FinalCollective]] = {}
        for kind in (self._embeddings(), self._losses(), self._norms()):
            for member, collective in kind.items():
                made.setdefault(member, []).append(collective)
        return made

    def _reducing(
        self, stage: int, members: Sequence[int], connections: int = 0
    ) -> list[GroupCommunicator]:
        """Communicators of ``members`` of ``stage``, who reduce gradients."""
        return self._reducing_all([(stage, m) for m in members], connections)

    def _reducing_all(
        self, members: Sequence[Member], connections: int = 0, label: str = ""
    ) -> list[GroupCommunicator]:
        """Communicators of a group that reduces gradients, on its ``connections``-th set of
        connections."""
        config = self._config
        context = self.context
        build = context.all_reduce.build if context.strategy.all_reduces else ALGORITHMS["ring"]
        side_by_side = 1
        if config.library is not None:
            build = self.rings(config.library)
            side_by_side = config.library.side_by_side
        return self.communicators(members, build, DP, label, connections, side_by_side)

    def _embeddings(self) -> dict[Member, FinalCollective]:
        """First and last stage sum the gradients of the embedding they share."""
        config = self._config
        if not config.sync_embeddings or config.pp == 1:
            return {}
        size = config.model.vocab * config.model.hidden // config.tp * config.gradient_bytes
        ends = [[(0, m), (config.pp - 1, m)] for m in range(config.members)]
        return self._all_reduces(ends, size, connections=0)

    def _losses(self) -> dict[Member, FinalCollective]:
        config = self._config
        if not config.loss_reduce or config.members == 1:
            return {}
        last = [(config.pp - 1, m) for m in range(config.members)]
        return self._all_reduces([last], NORM_BYTES, connections=1)

    def _norms(self) -> dict[Member, FinalCollective]:
        """The ranks of a replica sum their parts of the gradient's norm."""
        config = self._config
        if not config.gradient_norm or config.pp == 1:
            return {}
        replicas = [[(s, m) for s in range(config.pp)] for m in range(config.members)]
        return self._all_reduces(replicas, NORM_BYTES, connections=2)

    def _all_reduces(
        self, groups: Sequence[Sequence[Member]], size_bytes: int, connections: int
    ) -> dict[Member, FinalCollective]:
        made: dict[Member, FinalCollective] = {}
        library = self._config.library
        build = self.rings(library) if library else _one_ring
        for members in groups:
            opened = self.communicators(members, build, OTHER, "other_", connections)
            for member, own in zip(members, opened, strict=True):
                made[member] = FinalCollective(own, "all_reduce", size_bytes)
        return made

    def rings(self, library: Library | None) -> Builder:
        """The rings of a job's socket library, or those of a library for RDMA."""
        if library is None:
            return ALGORITHMS["ring"]
        return segmented(library, self.context.draws, self.context.progress.steps.start)

    def communicators(
        self,
        members: Sequence[Member],
        build: Builder,
        kind: str,
        label: str = "",
        connections: int = 0,
        side_by_side: int = 1,
    ) -> list[GroupCommunicator]:
        """Communicators of ``members``.

        A rank communicates with the ranks at its position in the other tensor-parallel groups.
        """
        config, context = self._config, self.context
        parts = [
            part
            for t in range(config.tp)
            for part in build(
                Group(
                    [int(context.gpus[stage, member, t]) for stage, member in members],
                    Connection(config.name, kind, t + connections * config.tp),
                ),
                context.network,
            )
        ]
        numbers = [self.numbers[stage][member] for stage, member in members]
        stream = CommStream(
            context.env, parts, numbers, context.log, label, side_by_side=side_by_side
        )
        context.streams.append(stream)
        return [GroupCommunicator(stream, place) for place in range(len(members))]


def _one_ring(group: Group, network: Network) -> list[Collective]:
    """A single ring: small buffers are not split over channels."""
    return rings(group, network)[:1]
