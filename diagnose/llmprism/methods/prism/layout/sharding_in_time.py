"""What replicas of a pipeline shard, where sizes of messages do not show it.

Records may hold several messages, and gradients may have as many bytes as parameters, or come in
other buckets. Times still show two of the forms (:mod:`~llmprism.methods.prism.layout.sharding`):

- Parameters that move during every pass are sharded (``zero3``), if each rank sends to one other
  rank of its group. Where it sends to several, they may be sharded in a part of the group
  (``hybrid``).
- Where a silence parts gradients from gathers, the bytes before it show how often gradients are
  reduced: once (``zero1``), or in every micro-batch (``zero2``). Two reductions of as many bytes as
  parameters have look like one of twice as many.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import HALF
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.parted_gathers import reductions_before_updates

UNKNOWN = "unknown"
ALIKE = 2  # micro-batches: both forms may have the same bytes


def sharding_in_time(
    connections: Connections, phases: Phases, pipelines: Pipelines, members: int
) -> str:
    """Name what ``members`` replicas shard, or answer that it is unknown."""
    own = [one for one in phases.classes if one.kind == "dp"]
    if pipelines.length == 1 or not own:
        return UNKNOWN
    if phases.gathers_often:
        return "zero3" if _send_to_one(connections, own) else UNKNOWN
    if phases.gathers is not None or pipelines.micro_batches < ALIKE:
        return UNKNOWN
    often = np.concatenate(
        [reductions_before_updates(connections, one, phases, pipelines, members) for one in own]
    )
    numbers = {1: "zero1", pipelines.micro_batches: "zero2"}
    if pipelines.micro_batches == ALIKE:
        del numbers[ALIKE]
    for number, name in numbers.items():
        if often.size and (often == number).sum() > HALF * often.size:
            return name
    return UNKNOWN


def _send_to_one(connections: Connections, own: list[KindOf]) -> bool:
    """Whether every sender of the classes has one receiver."""
    chosen = np.concatenate([one.one.connections for one in own])
    pairs = np.unique(np.column_stack((connections.src[chosen], connections.dst[chosen])), axis=0)
    return bool(np.bincount(pairs[:, 0]).max() == 1)
