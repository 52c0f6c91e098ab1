"""How long a middle stage of a pipeline takes for a forward pass.

It receives an activation and sends the next one a forward pass later, as it receives a gradient and
sends the next one a backward pass later. Both are seen in the same way, so transfers, which may
take longer than passes, change neither. In a first stage the next pass may have to wait until the
last activation is sent.

A first stage sends nothing after its backward passes. If forward and backward passes take turns, or
if there are stages between, others show how long they take. With GPipe and two stages neither is
so: all activations come first, then all gradients. The last stage then shows how much longer than
forward its passes take backward: its gradients leave one backward pass apart, and the first one
leaves a backward pass after all its forward passes. That ratio is taken to be that of the first
stage; without it, a backward pass takes twice as long, as its number of operations says. So it does
if both stages hold several chunks: activations and gradients then pass both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median

SINGLE = 1.5  # messages: a record that holds fewer holds one
BACKWARD = 2  # forward passes that a backward pass takes
LEAST, MOST = 1.0, 4.0  # ... at least, and at most: with all activations computed again, three


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


def backward_of_first_ns(steps: Iterable[tuple[Floats, Floats, Ints]], forward_ns: float) -> float:
    """Estimate the time of a backward pass of the first stage [ns]; NaN without ``forward_ns``.

    ``steps`` are those that the last stage shows whole
    (:func:`~llmprism.methods.prism.pipelines.last_stage.steps_of_last`), of several messages each.
    """
    ratio = finite_median(np.array([_ratio(got, sent) for got, sent, _ in steps]))
    return forward_ns * (ratio if LEAST <= ratio <= MOST else BACKWARD)


def _ratio(got: Floats, sent: Floats) -> float:
    """Backward over forward pass of the last stage, in a step that receives all before it sends.

    ``got`` and ``sent`` are ends of activations and begins of gradients [ns]. NaN if forward passes
    do not come first. The stage waits for activations, or is behind from the first one on.
    """
    if got[-1] >= sent[0]:
        return float("nan")
    backward = float(np.median(np.diff(sent)))
    behind = (sent[0] - backward - got[0]) / got.size
    forward = max(behind, 0.0) if got[-1] + behind <= sent[0] - backward else 0.0
    forward = forward or sent[0] - backward - got[-1]
    return backward / forward if forward > 0 else float("nan")
