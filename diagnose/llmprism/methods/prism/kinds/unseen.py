"""Endpoints at a leaf that exports nothing: no record shows what they send.

Traffic circulates, so what an unseen endpoint receives counts as if it were answered, if it moves
as much in every step as other traffic of its sender does. It is of the kind of what is seen
elsewhere in the same amounts: an activation, or one half of an exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.classes import VOLUME_STEP, TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints
from llmprism.numerics.graph import components

NEIGHBOURS = 3  # a rank of a pipeline gets something from two stages, and in its ring
MIRRORED = 0.8  # confidence of what must be there, since it answers what is seen


def unseen_endpoints(topology: Topology, senders: Codes, receivers: Codes) -> Codes:
    """Endpoints at the only leaf that receives traffic and of which nobody ever sends any."""
    leaves = np.array([end.switch or "" for end in topology.endpoints])
    silent = np.setdiff1d(leaves[np.unique(receivers)], leaves[np.unique(senders)])
    if silent.size != 1 or not silent[0]:
        return np.empty(0, np.int32)
    return np.flatnonzero(leaves == silent[0]).astype(np.int32)


def one_sided(connections: Connections, classes: Sequence[TrafficClass]) -> list[int]:
    """Indices of the ``classes`` of which only traffic to unseen endpoints is seen."""
    to_unseen = connections.to_unseen
    if to_unseen is None:
        return []
    return [i for i, one in enumerate(classes) if bool(to_unseen[one.connections].all())]


def resembling(
    connections: Connections, one: TrafficClass, step: Codes, judged: Sequence[KindOf]
) -> KindOf:
    """``one`` with the kind of the class whose volume, and then whose records, are nearest."""

    def apart(other: TrafficClass) -> tuple[float, float]:
        volume, record = (
            float(np.abs(np.log(np.median(of[one.connections]) / np.median(of[other.connections]))))
            for of in (connections.total_bytes, connections.typical_bytes)
        )
        return max(volume, VOLUME_STEP), record

    best = min(judged, key=lambda other: apart(other.one))
    near = apart(best.one)[0] <= VOLUME_STEP
    kind, sure = (best.kind, SURE * best.confidence) if near else ("unknown", 0.0)
    return KindOf(one, kind, sure, step)


def answers_of_unseen(
    topology: Topology, connections: Connections, pairs: pd.DataFrame
) -> pd.DataFrame:
    """Rows ``src``, ``dst``, ``kind``, ``confidence`` of what unseen endpoints must send.

    They send gradients for activations, or the other way round, their half of exchanges in groups
    of two, and the one hop that a ring lacks. ``pairs`` were seen.
    """
    unseen = np.zeros(0, np.int64)
    if connections.to_unseen is not None:
        unseen = np.unique(connections.dst[connections.to_unseen])
    received = pairs[pairs["dst"].isin(unseen)]
    gradients = pairs[pairs["kind"] == "dp"]
    couples = _partners(gradients)
    alone = (couples.reindex(received[way]).to_numpy() == 1 for way in ("src", "dst"))
    back = received[
        (received["kind"] == "pp") | ((received["kind"] == "dp") & np.logical_and(*alone))
    ]
    rows = [back.rename(columns={"src": "dst", "dst": "src"})[["src", "dst", "kind"]]]
    if unseen.size and not may_go_on(topology, connections, connections.dst):
        rows.append(_hops_of_rings(gradients, unseen))
    found: pd.DataFrame = pd.concat(rows).assign(confidence=MIRRORED)
    return found


def _hops_of_rings(gradients: pd.DataFrame, unseen: Ints) -> pd.DataFrame:
    """The hop that a ring lacks: from an unseen endpoint to the one that receives nothing.

    ``gradients`` are the data-parallel pairs that were seen.
    """
    src, dst = (gradients[way].to_numpy(np.int32) for way in ("src", "dst"))
    label = components(src, dst, int(max(src.max(initial=0), dst.max(initial=0))) + 1)
    rows = []
    for one in np.unique(label[src]).tolist():
        inside = label[src] == one
        begins, ends = (
            np.setdiff1d(src[inside], dst[inside]),
            np.setdiff1d(dst[inside], src[inside]),
        )
        if inside.sum() > 1 and begins.size == ends.size == 1 and np.isin(ends, unseen).all():
            rows.append((int(ends[0]), int(begins[0]), "dp"))
    found = pd.DataFrame(rows, columns=["src", "dst", "kind"])
    return found.astype({"src": np.int64, "dst": np.int64})


def _partners(gradients: pd.DataFrame) -> pd.Series:
    """With how many others each endpoint shares data-parallel traffic."""
    both = pd.concat([gradients, gradients.rename(columns={"src": "dst", "dst": "src"})])
    return both.groupby("src")["dst"].nunique()


def with_unseen(topology: Topology, senders: Codes, connections: Connections) -> Connections:
    """``connections`` with those that lead to an unseen endpoint marked, if there are any.

    Storage that has a leaf for itself only receives, too, but from more endpoints than ranks do.
    """
    ends = unseen_endpoints(topology, senders, connections.dst)
    if not ends.size:
        return connections
    own = np.flatnonzero(connections.carries)
    pairs = np.unique(np.column_stack((connections.src[own], connections.dst[own])), axis=0)
    senders_of = np.bincount(pairs[:, 1], minlength=len(topology.endpoints))
    others = np.delete(senders_of, ends)
    ends = ends[senders_of[ends] <= others.max(initial=NEIGHBOURS)]
    to_unseen = np.isin(connections.dst, ends)
    return replace(connections, to_unseen=to_unseen) if to_unseen.any() else connections


def may_go_on(topology: Topology, connections: Connections, endpoints: Codes) -> bool:
    """Whether a job may have more endpoints at the leaf of unseen ones, that nobody seen sends to.

    What unseen endpoints send each other leaves no record.
    """
    if connections.to_unseen is None:
        return False
    seen = np.intersect1d(endpoints, connections.dst[connections.to_unseen])
    leaves = np.array([end.switch or "" for end in topology.endpoints])
    beside = np.flatnonzero(np.isin(leaves, leaves[seen]))
    return bool(np.setdiff1d(beside, np.union1d(endpoints, connections.dst)).size)
