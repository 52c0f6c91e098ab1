"""Stages inside servers: rings of one server that reduce different parts of a model.

A pipeline with all its stages in one server sends activations by NVLink, where no flow shows them.
Its gradients show it. The ranks of a tensor-parallel group hold equal parts of the model, so their
rings move the same bytes and begin together in every step. Stages may differ in both: the first
one holds the embedding, the last one the head, and later stages have their gradients first.

A ring that is slow ends late but begins with the others, so only begins are compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.parameters import EQUAL, QUARTER
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian


def with_stages_inside(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Pipelines:
    """``pipelines`` with the stages that only rings of gradients show; unchanged if none do.

    Every server must have one NIC of every ring, and all stages as many of them.
    """
    places = _places(topology, phases)
    if pipelines.length > 1 or places.size == 0 or places.shape[1] == 1:
        return pipelines
    later_ns, step_ns = _later_ns(phases, places)
    part = _by_time(_by_bytes(_sent_bytes(connections, phases)[places]), later_ns, step_ns)
    rings = np.bincount(part)
    if np.unique(rings).size > 1 or rings.size == 1:
        return pipelines
    begins = np.array([np.median(later_ns[part == one]) for one in range(rings.size)])
    stage = np.full(phases.endpoints.size, -1)
    stage[places] = np.argsort(np.argsort(-begins))[part]
    number = np.full(phases.endpoints.size, -1)
    each = np.array([np.cumsum(part == part[i])[i] - 1 for i in range(part.size)])
    number[places] = each + rings[0] * np.arange(places.shape[0])[:, None]
    return replace(pipelines, stage=stage, number=number, length=rings.size)


def _places(topology: Topology, phases: Phases) -> Ints:
    """Rows of endpoints, shape (servers, rings), by number of ring; empty if uneven."""
    own = np.flatnonzero(phases.dp_group >= 0)
    order = own[np.lexsort((phases.dp_group[own], topology.servers[phases.endpoints[own]]))]
    servers = np.unique(topology.servers[phases.endpoints[own]]).size
    groups = np.unique(phases.dp_group[own]).size
    cells = np.column_stack((topology.servers[phases.endpoints[own]], phases.dp_group[own]))
    if own.size != servers * groups or np.unique(cells, axis=0).shape[0] < own.size:
        return np.empty((0, 0), np.int64)
    return order.reshape(servers, groups)


def _sent_bytes(connections: Connections, phases: Phases) -> Floats:
    """Gradients that each endpoint usually sends in a step, shape (endpoints,)."""
    sent = np.zeros((int(phases.endpoints.max()) + 1, phases.count))
    for one in phases.classes:
        if one.kind == "dp":
            np.add.at(
                sent, connections.src[one.connections], one.volumes(connections, phases.count)
            )
    return np.asarray(np.median(sent[phases.endpoints], axis=1))


def _by_bytes(sent: Floats) -> Ints:
    """Number the rings of ``sent``, shape (servers, rings), so that equal bytes have one number.

    Only shares of a server count, since hops of a ring send more or less than others if it is cut
    open. Bytes differ if they differ by more than these shares do, and by what counts as equal.
    """
    share = sent / np.maximum(np.median(sent, axis=1, keepdims=True), 1)
    usual = np.median(share, axis=0)
    error = max(EQUAL, float(2 * np.max(np.ptp(share, axis=0) / np.maximum(usual, EQUAL))))
    order = np.argsort(usual)
    apart = np.diff(usual[order]) > error * usual[order][1:]
    part = np.zeros(usual.size, np.int64)
    part[order[1:]] = np.cumsum(apart)
    return part


def _later_ns(phases: Phases, places: Ints) -> tuple[Floats, float]:
    """How much later than the first ring of its server each begins, and a step, usually [ns]."""
    sent = phases.moments["dp"].sent_ns[places].astype(np.float64)
    sent[sent == MISSING] = np.nan
    first = sent.min(axis=1, keepdims=True)
    later = np.nan_to_num(nanmedian(sent - first, axis=2))
    step_ns = finite_median(np.diff(first[0, 0]))
    return np.asarray(np.median(later, axis=0)), float(np.nan_to_num(step_ns))


def _by_time(part: Ints, later_ns: Floats, step_ns: float) -> Ints:
    """Divide parts of equal bytes where rings begin as far apart as those of different bytes do."""
    pairs = np.abs(later_ns[:, None] - later_ns[None, :])
    differ = pairs[part[:, None] != part[None, :]]
    near = QUARTER * np.median(differ) if differ.size else EQUAL * step_ns
    order = np.lexsort((later_ns, part))
    apart = (np.diff(later_ns[order]) > near) | (np.diff(part[order]) > 0)
    divided = np.zeros(part.size, np.int64)
    divided[order[1:]] = np.cumsum(apart)
    return divided
