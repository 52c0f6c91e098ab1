"""What the NICs of one server and stage are to each other: tensor-parallel ranks, or others.

NICs that work in lockstep are tensor-parallel, unless the sizes of messages show that they are
members of one ring. Then they are replicas, or share a sequence (cp) or its experts (ep). Where
neither shows anything, each ring is taken for one of a tensor-parallel rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.layout.replicas import Replicas, usual_rings
from llmprism.methods.prism.layout.ring_sizes import RingShare
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.graph import largest_group

UNKNOWN = -1
ONE_EACH = 0.55  # confidence where each NIC has a ring of its own: servers may reduce by themselves
CERTAIN = 0.9  # confidence from which sizes of messages are believed more than times
SHOWN, GUESSED = 0.98, 0.73  # share of layouts that are right, on drawn worlds (seeds 21 to 33)


class Inside(NamedTuple):
    """Ranks along tp, ep and cp, what shows how a server divides into them, and how sure it is."""

    tp: int
    ep: int
    cp: int
    shown_by: str
    confidence: float


def inside_servers(
    topology: Topology,
    connections: Connections,
    phases: Phases,
    pipelines: Pipelines,
    replicas: Sequence[Replicas],
    share: RingShare | None,
) -> Inside:
    """What the NICs of one server and stage are to each other."""
    sizes = {kind: _group_size(connections, phases, kind) for kind in ("ep", "cp", "tp")}
    sizes |= {kind: hidden.size for kind, hidden in phases.hidden.items()}
    ep, cp = max(1, sizes["ep"]), max(1, sizes["cp"])
    together, lockstep = _lockstep(replicas, pipelines)
    tp, by, sure = together, "lockstep", SHOWN
    if share and (together == UNKNOWN or share.confidence >= CERTAIN):
        tp = share.rings // share.ranks
        if ep == cp == 1:
            ep, cp = _in_one_ring(share, together if lockstep else tp)
        agree = lockstep and tp == together
        by, sure = "sizes", SHOWN if agree else _confidence(share)
    elif not lockstep:
        tp = usual_rings(topology, phases, pipelines) if together == UNKNOWN else together
        by, sure = "rings", GUESSED
    if "cp" in phases.hidden:
        tp = phases.hidden["cp"].rings  # a group fills servers, so each ring is of a TP rank
    if "tp" in phases.hidden:
        sure = SHOWN
    return Inside(sizes["tp"] if sizes["tp"] > 1 else tp, ep, cp, by, sure)


def _group_size(connections: Connections, phases: Phases, kind: str) -> int:
    """Members of the largest group that connections of ``kind`` join; 0 if there are none."""
    own = [one.one.connections for one in phases.classes if one.kind == kind]
    if not own:
        return 0
    chosen = np.concatenate(own)
    return largest_group(connections.src[chosen], connections.dst[chosen])


def _lockstep(replicas: Sequence[Replicas], pipelines: Pipelines) -> tuple[int, bool]:
    """NICs of a server and stage that send together, and whether flows show it.

    They show nothing if a NIC that no exporter saw may send with them.
    """
    if (pipelines.stage < 0).any() and not any(one.number.any() for one in replicas):
        return UNKNOWN, False
    sizes = [size for one in replicas for size in np.bincount(one.number).tolist()]
    if not sizes:
        return UNKNOWN, False
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[np.argmax(counts)]), any(one.shown for one in replicas)


def _confidence(share: RingShare) -> float:
    """How sure the division of a server is that sizes of messages show.

    A server that reduces by itself first, as hierarchical algorithms do, looks like a
    tensor-parallel group.
    """
    return min(share.confidence, SHOWN if share.ranks > 1 or share.rings == 1 else ONE_EACH)


def _in_one_ring(share: RingShare, together: int) -> tuple[int, int]:
    """Ranks along ep and cp that share a server; ``together`` NICs of it work in lockstep."""
    experts = share.experts if share.ranks % share.experts == 0 else 1
    return experts, max(1, together * share.ranks // (share.rings * experts))
