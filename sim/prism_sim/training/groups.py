"""The groups that ranks of a job communicate in, and everybody's seats there.

Members of a stage are its tensor-parallel groups, numbered as Megatron-LM numbers ranks:
context-parallel rank fastest, then expert-parallel rank, then the rest of the replica's
number. Parameters that all members hold are reduced over all of them; those of experts only
over members with the same expert-parallel rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from llmprism.kinds import CP, DP, EP, OTHER, TP
from prism_sim.cluster.network import Connection, Network
from prism_sim.scenario.library import Library
from prism_sim.training.collectives import ALGORITHMS, Builder, Collective, Group
from prism_sim.training.collectives.ring import rings
from prism_sim.training.collectives.segmented import segmented
from prism_sim.training.collectives.uneven import UnevenAllToAll
from prism_sim.training.exchanges import Dispatched, Exchange, Ringed, Scattered, Summed
from prism_sim.training.program import Joins
from prism_sim.training.seats import HybridSeat, Seat
from prism_sim.training.stream import CommStream, ExpertStream
from prism_sim.training.worker import Closing

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob

NORM_BYTES = 4
"""Bytes of a norm or a loss: one fp32 number."""

Member = tuple[int, int]
"""Stage and number within it."""


class Groups:
    """Opens the groups of ``job``.

    Parameters
    ----------
    job : whose ranks.
    numbers : number in the log of every worker, by stage and member.
    """

    def __init__(self, job: TrainingJob, numbers: Sequence[Sequence[int]]) -> None:
        self._job = job
        self._model = job.model
        self._numbers = numbers

    def gradients(self, stage: int) -> list[Joins]:
        """Seats for the parameters that every member of ``stage`` holds; empty if it has one."""
        model = self._model
        shards, members = model.hybrid_shards, range(model.members)
        if model.members == 1:
            return []
        if shards is None or shards == model.members:
            return [*self._reducing(stage, members)]
        inside = [
            self._reducing(stage, range(first, first + shards))
            for first in range(0, model.members, shards)
        ]
        outside = [
            self._reducing(stage, range(offset, model.members, shards), line=1)
            for offset in range(shards)
        ]
        places = (divmod(member, shards) for member in members)
        return [
            HybridSeat(self._job.env, inside[turn][offset], outside[offset][turn], shards)
            for turn, offset in places
        ]

    def expert_gradients(self, stage: int) -> list[Joins]:
        """Seats for the experts that each member of ``stage`` holds; empty if nobody shares."""
        model = self._model
        if model.mixture is None or model.members == model.ep:
            return []
        seats: dict[int, Joins] = {}
        for rank in range(model.ep):
            alike = [m for m in range(model.members) if m // model.cp % model.ep == rank]
            seats |= dict(
                zip(alike, self._reducing(stage, alike, line=2, label="expert_"), strict=True)
            )
        return [seats[member] for member in range(model.members)]

    def exchanges(self, stage: int) -> list[list[Exchange]]:
        """What each member of ``stage`` exchanges inside its passes."""
        made: list[list[Exchange]] = [[] for _ in range(self._model.members)]
        for exchanges in (self._tensor(stage), self._context(stage), self._expert(stage)):
            for member, exchange in exchanges.items():
                made[member].append(exchange)
        return made

    def closings(self) -> dict[Member, list[Closing]]:
        """What everybody waits for between the reduction of gradients and the update."""
        made: dict[Member, list[Closing]] = {}
        for opened in (self._embeddings(), self._losses(), self._norms()):
            for member, closing in opened.items():
                made.setdefault(member, []).append(closing)
        return made

    def _reducing(
        self, stage: int, members: Sequence[int], line: int = 0, label: str = ""
    ) -> list[Seat]:
        """Seats of a group that reduces gradients, on connections number ``line`` of its own."""
        model = self._model
        build = ALGORITHMS["ring" if model.zero_stage else model.all_reduce]
        side_by_side = 1
        if model.library is not None:
            build = self._segmented(model.library)
            side_by_side = model.library.side_by_side
        stage_members = [(stage, m) for m in members]
        return self._seats(stage_members, build, DP, label, line, side_by_side)

    def _tensor(self, stage: int) -> dict[int, Exchange]:
        """Tensor parallelism, where the group spans servers."""
        model, job = self._model, self._job
        if model.tp <= job.layout.cluster.gpus_per_server:
            return {}
        size = model.activation_bytes * model.local_tokens * model.model.hidden
        form = Scattered if model.sequence_parallel else Summed
        made: dict[int, Exchange] = {}
        for member in range(model.members):
            group = Group(job.gpus[stage, member].tolist(), Connection(model.name, TP))
            parts = ALGORITHMS["ring"](group, job.network)
            numbers = [self._numbers[stage][member]]
            stream = CommStream(job.env, parts, numbers, job.log, "tp_", model.tp)
            made[member] = form(Seat(stream, 0), size)
        return made

    def _context(self, stage: int) -> dict[int, Exchange]:
        model = self._model
        if model.cp == 1:
            return {}
        size = 2 * model.activation_bytes * model.local_tokens * model.model.kv_hidden // model.tp
        made: dict[int, Exchange] = {}
        for first in range(0, model.members, model.cp):
            members = range(first, first + model.cp)
            seats = self._seats([(stage, m) for m in members], ALGORITHMS["shift"], CP)
            made |= {m: Ringed(s, model.cp, size) for m, s in zip(members, seats, strict=True)}
        return made

    def _expert(self, stage: int) -> dict[int, Exchange]:
        model, job = self._model, self._job
        if model.mixture is None or model.ep == 1:
            return {}
        tokens = model.local_tokens * model.mixture.top_k
        size = model.activation_bytes * tokens * model.model.hidden // model.tp
        made: dict[int, Exchange] = {}
        for first in range(0, model.members, model.ep * model.cp):
            for context in range(model.cp):
                members = [first + context + rank * model.cp for rank in range(model.ep)]
                parts = [
                    UnevenAllToAll(
                        Group(job.gpus[stage, members, t].tolist(), Connection(model.name, EP, t)),
                        job.network,
                    )
                    for t in range(model.tp)
                ]
                numbers = [self._numbers[stage][m] for m in members]
                key = (model.name, first, context)
                stream = ExpertStream(
                    job.env, parts, numbers, job.log, job.draws, key, model.mixture.imbalance
                )
                for seat, member in enumerate(members):
                    load = partial(stream.load, seat) if model.mixture.imbalance else None
                    made[member] = Dispatched(Seat(stream, seat), size, load)
        return made

    def _embeddings(self) -> dict[Member, Closing]:
        """First and last stage add up the gradients of the embedding they share."""
        model = self._model
        if not model.sync_embeddings or model.pp == 1:
            return {}
        size = model.model.vocab * model.model.hidden // model.tp * model.gradient_bytes
        ends = [[(0, m), (model.pp - 1, m)] for m in range(model.members)]
        return self._closing(ends, size, line=0)

    def _losses(self) -> dict[Member, Closing]:
        model = self._model
        if not model.loss_reduce or model.members == 1:
            return {}
        last = [(model.pp - 1, m) for m in range(model.members)]
        return self._closing([last], NORM_BYTES, line=1)

    def _norms(self) -> dict[Member, Closing]:
        """The ranks of a replica add up their parts of the gradient's norm."""
        model = self._model
        if not model.gradient_norm or model.pp == 1:
            return {}
        replicas = [[(s, m) for s in range(model.pp)] for m in range(model.members)]
        return self._closing(replicas, NORM_BYTES, line=2)

    def _closing(
        self, groups: Sequence[Sequence[Member]], size_bytes: int, line: int
    ) -> dict[Member, Closing]:
        made: dict[Member, Closing] = {}
        library = self._model.library
        build = self._segmented(library) if library else _one_ring
        for members in groups:
            seats = self._seats(members, build, OTHER, "other_", line)
            for member, seat in zip(members, seats, strict=True):
                made[member] = Closing(seat, "all_reduce", size_bytes)
        return made

    def _segmented(self, library: Library) -> Builder:
        return segmented(library, self._job.draws, self._job.steps_ahead.start)

    def _seats(
        self,
        members: Sequence[Member],
        build: Builder,
        kind: str,
        label: str = "",
        line: int = 0,
        side_by_side: int = 1,
    ) -> list[Seat]:
        """Seats in a group whose ranks talk to those of the same place in their tp groups."""
        model, job = self._model, self._job
        parts = [
            part
            for t in range(model.tp)
            for part in build(
                Group(
                    [int(job.gpus[stage, member, t]) for stage, member in members],
                    Connection(model.name, kind, t + line * model.tp),
                ),
                job.network,
            )
        ]
        numbers = [self._numbers[stage][member] for stage, member in members]
        stream = CommStream(job.env, parts, numbers, job.log, label, side_by_side=side_by_side)
        return [Seat(stream, place) for place in range(len(members))]


def _one_ring(group: Group, network: Network) -> list[Collective]:
    """A single ring: small buffers are not split over channels."""
    return rings(group, network)[:1]
