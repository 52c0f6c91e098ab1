"""Exchanges of the passes that only some stages of a pipeline show to be what they are.

Experts, context parallelism and tensor parallelism exchange activations in every stage alike: as
many messages of one size, between as many ranks. Gradients differ, as stages hold different
parameters. An exchange begins long before the gradients in the first stages; in the last one, the
first gradients follow after one forward pass, and times may not tell the two apart. What one stage
shows to be an exchange is one in all of them, if gradients remain beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.members import ALIKE
from llmprism.methods.prism.parameters import EQUAL, SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.graph import largest_group

EXCHANGES = ("tp", "cp", "ep")


@dataclass(frozen=True)
class _Shape:
    """What a class sends: bytes of a message and of a connection, and members of a group."""

    message: float
    volume: float
    members: int

    def is_like(self, other: _Shape) -> bool:
        """Whether both may be the same exchange in two stages."""
        same = abs(self.message - other.message) <= EQUAL * other.message
        most = max(self.volume, other.volume) <= ALIKE * min(self.volume, other.volume)
        return same and most and self.members == other.members


def exchange_in_passes(classes: Sequence[KindOf]) -> bool:
    """Whether ranks exchange activations inside the passes."""
    return any(one.kind in EXCHANGES for one in classes)


def alike_in_all_stages(
    connections: Connections, stages: Sequence[Sequence[KindOf]]
) -> list[KindOf]:
    """All classes of all ``stages``, with the kind of exchanges that other stages show."""
    shapes = [[_shape(connections, one) for one in own] for own in stages]
    known = [
        (shape, one)
        for own, of_own in zip(stages, shapes, strict=True)
        for one, shape in zip(own, of_own, strict=True)
    ]
    found: list[KindOf] = []
    for own, of_own in zip(stages, shapes, strict=True):
        shown = [_shown(one, shape, known) for one, shape in zip(own, of_own, strict=True)]
        remains = any(one.kind == "dp" for one in shown)
        found += shown if remains else own
    return found


def _shown(one: KindOf, shape: _Shape, known: Sequence[tuple[_Shape, KindOf]]) -> KindOf:
    """``one`` with the kind of an exchange that is like it, if it was taken for gradients."""
    like = [other for of_other, other in known if shape.is_like(of_other)]
    exchanges = [other for other in like if other.kind in EXCHANGES]
    if one.kind != "dp" or not exchanges:
        return one
    best = max(exchanges, key=lambda other: other.confidence)
    if best.confidence < SURE and 2 * len(exchanges) <= len(like):
        return one
    return replace(one, kind=best.kind, confidence=best.confidence)


def _shape(connections: Connections, one: KindOf) -> _Shape:
    """By what exchanges are compared: typical record, total volume and largest group."""
    own = one.connections
    return _Shape(
        float(np.median(connections.typical_bytes[own])),
        float(np.median(connections.total_bytes[own])),
        largest_group(connections.src[own], connections.dst[own]),
    )
