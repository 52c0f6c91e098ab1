"""What replicas of a pipeline shard, where sizes of messages do not show it.

Records may hold several messages, and gradients may have as many bytes as parameters, or come in
other buckets. Times still show two of the forms (:mod:`~llmprism.methods.prism.layout.sharding`):

- Where a silence parts gradients from gathers, the bytes before it show how often gradients are
  reduced: once (``zero1``), or in every micro-batch (``zero2``). Two reductions of as many bytes as
  parameters have look like one of twice as many.
"""

from __future__ import annotations

import numpy as np

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
    if pipelines.micro_batches < ALIKE:
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
