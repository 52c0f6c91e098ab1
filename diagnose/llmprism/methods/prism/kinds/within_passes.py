"""Collectives that end before the last backward pass of their stage: tensor-parallel exchanges.

A stage reduces gradients once they are computed. So its data-parallel traffic ends after its last
backward pass, which ends when the stage sends its last gradient to the stage before it. A
tensor-parallel group exchanges activations and their gradients within the passes. If all
collectives of a stage end with its passes, they are exchanges of such a group: the pipeline has no
other replica, or its replicas share servers. The first stage sends no gradients, so the other
stages show what it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.stages import Own
from llmprism.methods.prism.parameters import MOSTLY, SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import finite_median
from prism_common.threads import in_threads

MIDDLE = 0.5  # of the passes: what ends earlier may be the gradients of the step before


def within_passes(
    connections: Connections,
    stages: Sequence[Sequence[KindOf]],
    pipeline: Sequence[Own],
    count: int,
) -> list[list[KindOf]]:
    """``stages`` with the kind ``tp`` for gradients, if they are over before the passes are."""
    shown = in_threads(lambda own: _shown(connections, own, pipeline, count), stages)
    later = [begin for begin, over in shown if over]
    first = [begin for begin, over in shown if not over]
    if not later or max(first, default=-np.inf) >= min(later):
        return [list(own) for own in stages]
    return [
        [replace(one, kind="tp", confidence=SURE) if one.kind == "dp" else one for one in own]
        for own in stages
    ]


def _shown(
    connections: Connections, own: Sequence[KindOf], pipeline: Sequence[Own], count: int
) -> tuple[float, bool]:
    """When a stage sends its first message of a step [ns], median over steps; NaN for none.

    And whether all of its collectives end before it sends its last message, in most steps.
    """
    chosen = np.concatenate([one.connections for one in own])
    members = np.union1d(connections.src[chosen], connections.dst[chosen])
    ended, tick = np.full(count, -np.inf), 1
    for one in own:
        known = one.step >= 0
        np.maximum.at(ended, one.step[known], one.traffic.end_ns[known].astype(np.float64))
        tick = max(tick, clock_tick_ns(one.traffic.end_ns))
    first, last = _sent(connections, members, pipeline, count)
    known = np.isfinite(first) & np.isfinite(ended)
    begin, end, until = first[known], ended[known], last[known]
    over = (end <= until + tick) & (end > begin + MIDDLE * (until - begin))
    return finite_median(first), bool(known.any() and over.mean() >= MOSTLY)


def _sent(
    connections: Connections, members: Ints, pipeline: Sequence[Own], count: int
) -> tuple[Floats, Floats]:
    """When ``members`` begin to send their first and last message of a step; not finite if none."""
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    sends = np.isin(connections.src, members)
    for one, step in pipeline:
        own: Bools = sends[connections.of_row[one.traffic.row]] & (step >= 0)
        start = one.traffic.start_ns[own].astype(np.float64)
        np.minimum.at(first, step[own], start)
        np.maximum.at(last, step[own], start)
    return first, last
