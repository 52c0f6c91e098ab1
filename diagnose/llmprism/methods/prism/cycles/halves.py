"""Forward and backward passes that look like steps: two volumes take turns.

With sharded parameters the longest silences may lie between forward and backward passes, too, as
where a large output layer is gathered first. Parts that end with silences are then halves of
steps, in turn a smaller and a larger one, each exactly as large as every second one. Steps with an
evaluation after every second one look alike, but an evaluation moves the messages of a forward pass
once more: all sizes of messages grow in the same ratio. Parts that differ by chance, or since
records were lost, do not take turns.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.parameters import EQUAL, FEWEST, SMALL
from llmprism.numerics.arrays import Bools, Ints
from prism_common.early import INTS


def ends_of_pairs(traffic: Traffic, parts: Division) -> Ints:
    """First record of each step but the first, if every two of the ``parts`` are a step."""
    if parts.evaluated or len(parts) % 2 or len(parts) < 2 * FEWEST:
        return INTS
    halves = parts.volumes.reshape(-1, 2)
    usual = np.median(halves, axis=0)
    exact = (np.abs(halves / usual - 1) <= EQUAL).all()
    differ = usual.max() > (1 + SMALL) * usual.min()
    second = parts.part_of(len(traffic)) % 2 == 1
    return parts.cuts[1::2] if exact and differ and not _alike(traffic, second) else INTS


def _alike(traffic: Traffic, second: Bools) -> bool:
    """Whether messages of the size that moves most have the same share of both halves' bytes."""
    sizes, which = np.unique(traffic.size, return_inverse=True)
    most = which == np.bincount(which, traffic.size).argmax()
    shares = [traffic.size[own & most].sum() / traffic.size[own].sum() for own in (~second, second)]
    return bool(abs(shares[0] - shares[1]) <= EQUAL) or sizes.size == 1
