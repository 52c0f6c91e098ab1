"""How long a first stage takes for a backward pass, where only the last stage comes after it.

A first stage sends nothing after its backward passes. If forward and backward passes take turns, or
if there are stages between, others show how long they take. With GPipe and two stages neither is
so: all activations come first, then all gradients. The last stage then shows how much longer than
forward its passes take backward: its gradients leave one backward pass apart, and the first one
leaves a backward pass after all its forward passes. That ratio is taken to be that of the first
stage; without it, a backward pass takes twice as long, as its number of operations says. So it does
if both stages hold several chunks: activations and gradients then pass both ways.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median

BACKWARD = 2  # forward passes that a backward pass takes
LEAST, MOST = 1.0, 4.0  # ... at least, and at most: with all activations computed again, three


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
