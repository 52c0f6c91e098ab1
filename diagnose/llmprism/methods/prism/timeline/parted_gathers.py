"""Parameters that are gathered after the update that a silence shows, whatever their sizes.

A rank of a later stage has ended its passes when it has sent its last gradient. When all replicas
have, all gradients of the stage are ready, so they are reduced one after the other. If traffic of
replicas ends later than that, and goes on after a silence, the silence is an update: what follows
gathers parameters, with as many bytes as gradients or half as many. Gradients are reduced once, or
in every micro-batch. Rings rest for other reasons as well, but in several places alike. The first
stage does not show when it ends its passes.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import HALF, SMALL
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.first_messages import FULLEST
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import (
    Floats,
    Ints,
    before_in_groups,
    latest_in_groups,
    order_in_groups,
)

NEAR = 0.005  # of the bytes of a step
LONGER = 1.5  # than other silences: those in which a ring waits for a neighbour are about equal
MOVED = 30 / 4  # bytes in memory for a byte of gradients: what Adam reads and writes
FASTEST_NS = MOVED / 8000  # ... of a byte: 8,000 GB/s, NVIDIA B200 (data sheet)


def gathers_after_updates(
    connections: Connections, one: KindOf, phases: Phases, pipelines: Pipelines, members: int
) -> bool:
    """Whether ``members`` replicas gather parameters after updates, in most steps of a class."""
    often = reductions_before_updates(connections, one, phases, pipelines, members)
    return bool(often.size and (often > 0).sum() >= HALF * often.size)


def reductions_before_updates(
    connections: Connections, one: KindOf, phases: Phases, pipelines: Pipelines, members: int
) -> Ints:
    """How often ``members`` replicas reduce gradients before they gather parameters.

    Of each connection and step that shows when its sender has ended its passes; 0 where no update
    shows, or another silence is as long.
    """
    count = phases.count
    known, cell = one.cells(connections, count)
    order = order_in_groups(cell, one.traffic.start_ns[known])
    known, cell = known[order], cell[order]
    src = np.searchsorted(phases.endpoints, connections.src[one.connections])[cell // count]
    passed = _passed_ns(phases, pipelines)[src, cell % count]
    rest = _rests(one.traffic.start_ns[known], one.traffic.end_ns[known], cell, passed)
    size = one.traffic.size[known]
    volume = np.bincount(cell, size)
    before = before_in_groups(cell, size)
    lost = _lost(one.volumes(connections, count).ravel()[: volume.size], count)
    reduced = _reductions(before / volume[cell], pipelines.micro_batches, NEAR + lost[cell])
    update = (reduced > 0) & (rest > FASTEST_NS * before / (members * np.maximum(reduced, 1)))
    longest, other = np.zeros(volume.size), np.zeros(volume.size)
    np.maximum.at(longest, cell[update], rest[update])
    np.maximum.at(other, cell[~update], rest[~update])
    often = np.zeros(volume.size, np.int64)
    at = update & (rest == longest[cell])
    often[cell[at]] = reduced[at]
    often[longest <= LONGER * other] = 0
    return often[np.unique(cell[np.isfinite(passed)])]


def _passed_ns(phases: Phases, pipelines: Pipelines) -> Floats:
    """When all ranks of an endpoint's stage have ended the passes of a step [ns].

    NaN for the first stage, shape (endpoints, steps).
    """
    end = phases.moments["pp"].end_ns
    passed = np.where(end == MISSING, np.nan, end.astype(np.float64))
    for place in np.unique(pipelines.stage).tolist():
        own = pipelines.stage == place
        passed[own] = np.fmax.reduce(passed[own], axis=0) if place > 0 else np.nan
    return passed


def _rests(start: Ints, end: Ints, cell: Ints, passed: Floats) -> Floats:
    """Silence before each record of a cell, if what comes before ends later than ``passed`` [ns].

    0 where there is none. Records are in order of cells, then of starts.
    """
    latest = latest_in_groups(cell, end)
    rest = np.zeros(start.size)
    follows = (cell[1:] == cell[:-1]) & (latest[:-1] > passed[1:])
    rest[1:] = np.where(follows, start[1:] - latest[:-1], 0)
    return rest


def _lost(volume: Floats, count: int) -> Floats:
    """Share of its usual bytes that each cell lacks, those of steps that lost records.

    Cells are connections and, of each, ``count`` steps.
    """
    whole = np.pad(volume, (0, -volume.size % count)).reshape(-1, count)
    usual = np.maximum(np.quantile(whole, FULLEST, axis=1, keepdims=True), 1.0)
    lost: Floats = np.clip(1 - whole / usual, 0, SMALL).ravel()[: volume.size]
    return lost


def _reductions(share: Floats, micro_batches: int, near: Floats | float = NEAR) -> Ints:
    """How often gradients are reduced if they have a ``share`` of a step's bytes; 0 for no gathers.

    Gradients have as many bytes as parameters or twice as many. Shares may differ by ``near``.
    """
    found, nearest = np.zeros(share.size, np.int64), np.full(share.size, np.inf)
    for often in sorted({1, max(micro_batches, 1)}):
        for bytes_ in (often, 2 * often):
            away = np.abs(share - bytes_ / (1 + bytes_))
            fits = (away <= near) & (away <= nearest)
            found[fits], nearest[fits] = often, away[fits]
    return found
