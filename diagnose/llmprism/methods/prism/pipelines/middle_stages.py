"""How long a middle stage of a pipeline takes for a forward pass.

It receives an activation and sends the next one a forward pass later, as it receives a gradient and
sends the next one a backward pass later. Both are seen in the same way, so transfers, which may
take longer than passes, change neither. In a first stage the next pass may have to wait until the
last activation is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median

SINGLE = 1.5  # messages: a record that holds fewer holds one


def forward_of_middle_ns(
    flows: FlowTable, phases: Phases, own: Sequence[KindOf], stage: Ints
) -> float:
    """Median time of a step's first forward pass in a middle stage [ns]; NaN if none shows one.

    ``stage`` has the stage of each endpoint, ``own`` the classes of the pipelines.
    """
    place = np.zeros(len(flows.addresses), np.int64)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    got, sent = np.full((2, phases.endpoints.size, phases.count), np.nan)
    for one in own:
        known = np.flatnonzero(one.step >= 0)
        row, step = one.traffic.row[known], one.step[known]
        src, dst = place[flows.src[row]], place[flows.dst[row]]
        forward = stage[dst] == stage[src] + 1
        start_ns = (flows.start_ns[row] - flows.start_ns[0]).astype(np.float64)
        arrived_ns = start_ns + _first_message_ns(flows.lengths_ns(row), one.traffic.size[known])
        from_cell, to_cell = (side[forward] * phases.count + step[forward] for side in (src, dst))
        np.fmin.at(sent.ravel(), from_cell, start_ns[forward])
        np.fmin.at(got.ravel(), to_cell, arrived_ns[forward])
    return finite_median(sent - got)


def _first_message_ns(lengths_ns: Ints, size: Ints) -> Floats:
    """From the start of each record to the end of the first message that it holds [ns]."""
    messages = size / usual_size(size)
    single = messages < SINGLE
    if not single.any():
        each: Floats = lengths_ns / messages
        return each
    return np.where(single, lengths_ns, np.minimum(lengths_ns, np.median(lengths_ns[single])))
