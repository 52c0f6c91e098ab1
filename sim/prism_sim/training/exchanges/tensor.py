"""Tensor parallelism across NVLink domains: activations are summed after each half of a layer.

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

from prism_common.kinds import TP
from prism_sim.cluster.network import Connection
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives import Group
from prism_sim.training.communicators import GroupCommunicator
from prism_sim.training.exchanges.base import Around, Exchange, ExchangeBase, blocking
from prism_sim.training.groups import JobGroups
from prism_sim.training.layers import Phase
from prism_sim.training.program import Await, Communicator, Join
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
