"""How the NICs of one server and stage share the work: tensor-parallel ranks, replicas, or others.

NICs that work in lockstep are tensor-parallel, unless the sizes of messages show that they are
members of one ring. Then they are replicas, or share a sequence (cp). Where
neither shows anything, each ring may be that of one tensor-parallel rank, or of one of several
replicas: all ways to divide them are given, with shares, and none is stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.layout.replicas import Replicas, usual_rings
from llmprism.methods.prism.layout.ring_sizes import NONE, RingShare
from llmprism.methods.prism.layout.sharding import shows_shards
from llmprism.methods.prism.parameters import SURE
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.graph import largest_group
from llmprism.numerics.missing import finite_median

UNKNOWN = -1
AS_APART = 0.7  # of how much other servers vary: replicas of one server vary as much
UNCOMPARED, BOUND = 0.9, 0.6
"""Highest confidence of replicas if no other server shows how much they vary, and if they vary by
less than those of other servers: ranks that share a sequence, or gather parameters from each other,
wait for each other within passes. So may nobody, if all that varies is common to a server.
"""
SHOWN, SEVERAL, GUESSED, ONE_EACH, ALONE = 0.99, 0.98, 0.73, 0.6, 0.3
"""Share of layouts that are right: with one NIC of a server and stage, and with several, which may
be of ranks that share a sequence or experts. Where nothing shows whether they are replicas: in a
pipeline, without one (servers may reduce by themselves first), and in a pipeline without gradients
in sight, which may stay inside servers. From the hostile worlds of the seeds 21 to 27. In others,
of which a third hide sequences or experts in servers, SEVERAL is too sure (0.84 are right), and
GUESSED and ONE_EACH are, too (about a half).
"""


class Inside(NamedTuple):
    """Ranks along tp, ep and cp, what shows how a server divides into them, and how sure it is.

    ``ring`` has the members of each ring of gradients, -1 if sizes do not show them. ``may_be`` has
    the numbers of tensor-parallel ranks that nothing tells apart, with their shares.
    """

    tp: int
    ep: int
    cp: int
    shown_by: str
    confidence: float
    ring: int = UNKNOWN
    may_be: tuple[tuple[int, float], ...] = ()


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
    together, lockstep, agreeing = _lockstep(replicas, pipelines)
    rings = usual_rings(topology, phases, pipelines)
    apart = finite_median(np.array([np.nan, *(one.apart for one in replicas)]))
    most = _most(rings, together, apart)
    tp, by, sure = together, "lockstep", most * agreeing
    sharded = shows_shards(connections, phases)
    if share and _are_believed(share, together, apart, sharded=sharded):
        tp = share.rings // share.ranks
        if ep == cp == 1:
            cp = max(1, (together if lockstep else tp) * share.ranks // share.rings)
        in_sight = np.bincount(phases.dp_group[phases.dp_group >= 0]).max() * share.ranks
        agree = lockstep and tp == together and share.members <= in_sight
        by = "sizes"
        sure = min(most, _confidence(share, agree, sharded))
    elif not lockstep:
        tp = rings if together == UNKNOWN else together
        by, sure = "rings", most if tp == 1 else _guessed(phases, pipelines)
    if "cp" in phases.hidden:
        tp = phases.hidden["cp"].rings  # a group fills servers, so each ring is of a TP rank
    if "tp" in phases.hidden:
        sure = SHOWN
    tp = sizes["tp"] if sizes["tp"] > 1 else tp
    counted = share and by == "sizes" and tp == share.rings // share.ranks
    may_be = divided(rings) if by == "rings" and tp == rings > 1 else ()
    members = share.members if share and counted else UNKNOWN
    return Inside(tp, ep, cp, by, sure, members, may_be)


def divided(rings: int) -> tuple[tuple[int, float], ...]:
    """Ways to divide ``rings`` of a server and stage into tensor-parallel groups, with shares.

    Shares are in proportion to the size of the groups: on drawn worlds about half of the servers of
    which nothing shows the division are one group (:data:`GUESSED`).

    >>> [tp for tp, _ in divided(4)]
    [4, 2, 1]
    """
    sizes = [tp for tp in range(rings, 0, -1) if rings % tp == 0]
    return tuple((tp, round(tp / sum(sizes), 3)) for tp in sizes)


def _most(rings: int, together: int, apart: float) -> float:
    """The highest confidence where each server and stage has so many ``rings``.

    ``together`` of their NICs send together, and replicas are ``apart`` as in :class:`Replicas`.
    """
    if rings == 1:
        return SHOWN
    if together in (UNKNOWN, rings) or apart >= AS_APART:
        return SEVERAL
    return BOUND if apart < AS_APART else UNCOMPARED


def _are_believed(share: RingShare, together: int, apart: float, *, sharded: bool) -> bool:
    """Whether sizes are believed more than times, which show how many NICs send ``together``.

    Where servers reduce by themselves first, replicas have rings of one rank each. So if
    all-reduces have them, and NICs of one server vary as much as those of others, they are
    replicas.
    """
    if share.ranks == 1 and 0 < together < share.rings and apart >= AS_APART and not sharded:
        return False
    return together == UNKNOWN or share.confidence >= SURE


def _group_size(connections: Connections, phases: Phases, kind: str) -> int:
    """Members of the largest group that connections of ``kind`` join; 0 if there are none."""
    own = [one.connections for one in phases.classes if one.kind == kind]
    if not own:
        return 0
    chosen = np.concatenate(own)
    return largest_group(connections.src[chosen], connections.dst[chosen])


def _lockstep(replicas: Sequence[Replicas], pipelines: Pipelines) -> tuple[int, bool, float]:
    """NICs of a server and stage that send together, whether flows show it, and share that agrees.

    They show nothing if a NIC that no exporter saw may send with them. All tensor-parallel groups
    have one size, so NICs that others of their group seem to have left show that times mislead.
    """
    if (pipelines.stage < 0).any() and not any(one.number.any() for one in replicas):
        return UNKNOWN, False, 0.0
    sizes = np.concatenate([NONE, *(np.bincount(one.number) for one in replicas)])
    if not sizes.size:
        return UNKNOWN, False, 0.0
    values, counts = np.unique(sizes, return_counts=True)
    usual = values[np.argmax(counts)]
    agreeing = sizes[sizes == usual].sum() / sizes.sum()
    return int(usual), any(one.shown for one in replicas), float(agreeing)


def _confidence(share: RingShare, agree: bool, sharded: bool) -> float:
    """How sure the division of a server is that sizes of messages show; times may ``agree``.

    A server that reduces by itself first, as hierarchical algorithms do, looks like a
    tensor-parallel group. ``sharded`` states are reduced and gathered, not all-reduced.
    """
    if agree:
        return 1.0
    one_each = share.ranks == 1 < share.rings
    return min(share.confidence, ONE_EACH if one_each and not sharded else 1.0)


def _guessed(phases: Phases, pipelines: Pipelines) -> float:
    """How sure it is that all NICs of a server and stage are one group, if nothing shows it."""
    if pipelines.length == 1:
        return ONE_EACH
    return GUESSED if (phases.dp_group >= 0).any() else ALONE
