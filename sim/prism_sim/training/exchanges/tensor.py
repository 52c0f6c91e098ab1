"""Exchanges of tensor and of context parallelism.

Tensor parallelism across NVLink domains: activations are summed after each half of a layer.

Attention and the feed-forward part each end in an all-reduce of the micro-batch's activations,
forward and backward. With sequence parallelism each begins with an all-gather and ends in a
reduce-scatter; backward, the input is gathered once more, after the compute. Inside a domain
all this uses NVLink, and its time is part of the pass.

References: Shoeybi et al., Megatron-LM, 2019, section 3; Korthikanti et al., Reducing activation
recomputation, 2022, section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from prism_common.kinds import CP, TP
from prism_sim.cluster.network import Connection
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives import ALGORITHMS, Group
from prism_sim.training.communicators import GroupCommunicator
from prism_sim.training.exchanges.base import Around, Exchange, ExchangeBase, blocking
from prism_sim.training.groups import JobGroups
from prism_sim.training.layers import Phase
from prism_sim.training.program import Await, Communicator, Join, Point
from prism_sim.training.stream import CommStream


@dataclass(frozen=True)
class Summed:
    """Partial sums, all-reduced."""

    communicator: Communicator
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.layer < 0:
            return Around()
        return Around(after=blocking(self.communicator, "all_reduce", self.size_bytes, phase.layer))


@dataclass(frozen=True)
class Scattered:
    """Activations that are scattered over the group between the halves of a layer."""

    communicator: Communicator
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.layer < 0:
            return Around()
        layer, size = phase.layer, self.size_bytes
        slot = f"input {layer}"
        again = Join(self.communicator, "all_gather", size, slot, activations=True, layer=layer)
        return Around(
            before=blocking(self.communicator, "all_gather", size, layer),
            during=() if forward else ((Fraction(0), again), (Fraction(1), Await(slot))),
            after=blocking(self.communicator, "reduce_scatter", size, layer),
        )


class TensorParallelism(ExchangeBase):
    """Ranks of a tensor-parallel group that spans domains exchange activations."""

    name: ClassVar[str] = "tensor"
    spans: ClassVar[tuple[str, ...]] = ("tp_all_reduce", "tp_all_gather", "tp_reduce_scatter")

    @classmethod
    def of(cls, job: JobConfig) -> Self | None:
        return cls() if job.tp > 1 else None

    def open(self, groups: JobGroups, stage: int) -> Mapping[int, Exchange]:
        context, job = groups.context, groups.context.config
        if job.tp <= context.layout.cluster.domain_gpus:
            return {}
        size = job.activation_bytes * job.local_tokens * job.model.hidden
        form = Scattered if job.sequence_parallel else Summed
        made: dict[int, Exchange] = {}
        for member in range(job.members):
            group = Group(context.gpus[stage, member].tolist(), Connection(job.name, TP))
            parts = groups.rings(job.library)(group, context.network)
            numbers = [groups.numbers[stage][member]]
            stream = CommStream(context.env, parts, numbers, context.log, "tp_", job.tp)
            made[member] = form(GroupCommunicator(stream, 0), size)
        return made


# Context parallelism: keys and values are passed around a ring during attention.
#
# A sequence is divided among cp ranks. Each computes attention of its own queries with one
# block of keys and values at a time, and meanwhile passes the block on to the next rank: cp - 1
# sends a layer, hidden if a block's compute takes longer. Backward, the gradients of keys
# and values are passed with them, so messages are twice as large.
#
# Reference: Liu, Zaharia and Abbeel, Ring attention with blockwise transformers, ICLR'24.


@dataclass(frozen=True)
class RingAttention:
    """A ring of ``ranks``; ``size_bytes`` is the size of a rank's keys and values."""

    communicator: Communicator
    ranks: int
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.name != "attention":
            return Around()
        size = self.size_bytes * (1 if forward else 2)
        points: list[Point] = []
        for block in range(self.ranks - 1):
            slot = f"block {block}"
            send = Join(
                self.communicator, "kv_ring", size, slot, activations=True, layer=phase.layer
            )
            points.append((Fraction(block, self.ranks), send))
            points.append((Fraction(block + 1, self.ranks), Await(slot)))
        return Around(during=tuple(points))


class ContextParallelism(ExchangeBase):
    """Ranks that share sequences pass keys and values around a ring."""

    name: ClassVar[str] = "context"
    spans: ClassVar[tuple[str, ...]] = ("kv_ring",)

    @classmethod
    def of(cls, job: JobConfig) -> Self | None:
        return cls() if job.cp > 1 else None

    @classmethod
    def checks(cls, job: JobConfig, at: Loc) -> Remarks:
        if job.cp > 1 and job.model.latent_attention is not None:
            what = "context parallelism of latent attention is not modelled"
            yield Remark((*at, "cp"), what, "leave cp out", ((*at, "model"),))
        if job.tokens % job.cp:
            what = f"{job.tokens} tokens cannot be cut into {job.cp} equal parts"
            sequence = (*at, "sequence_length")
            yield Remark((*at, "cp"), what, "cp must divide the sequence", (sequence,))

    def open(self, groups: JobGroups, stage: int) -> Mapping[int, Exchange]:
        job = groups.context.config
        size = 2 * job.activation_bytes * job.local_tokens * job.model.kv_hidden // job.tp
        made: dict[int, Exchange] = {}
        for first in range(0, job.members, job.cp):
            members = range(first, first + job.cp)
            ranks = [(stage, member) for member in members]
            own = groups.communicators(ranks, ALGORITHMS["shift"], CP)
            made |= {m: RingAttention(c, job.cp, size) for m, c in zip(members, own, strict=True)}
        return made
