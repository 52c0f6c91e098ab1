"""Context parallelism: keys and values are passed around a ring during attention.

A sequence is divided among cp ranks. Each computes attention of its own queries with one
block of keys and values at a time, and meanwhile passes the block on to the next rank: cp - 1
sends a layer, hidden if a block's compute takes longer. Backward, the gradients of keys
and values are passed with them, so messages are twice as large.

Reference: Liu, Zaharia and Abbeel, Ring attention with blockwise transformers, ICLR'24.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from prism_common.kinds import CP
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives import ALGORITHMS
from prism_sim.training.exchanges.base import Around, Exchange, ExchangeBase
from prism_sim.training.groups import JobGroups
from prism_sim.training.layers import Phase
from prism_sim.training.program import Await, Communicator, Join, Point


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
