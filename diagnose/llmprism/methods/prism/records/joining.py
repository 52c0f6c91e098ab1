"""Which pairs of addresses may belong to one job, by their volumes alone.

Where a file is too large to be diagnosed at once, this says what has to stay together
(:mod:`llmprism.batches`). Joining too much costs only memory, while a job that is divided is lost.

A pair joins its ends if it is not minor for either of them: a service is much for an idle
host, but not for a rank, so it joins no rank. What is minor for both ends may be activations beside
large gradients. They join two groups of servers if most endpoints of one of them have them, with
few partners each, in about equal volumes; services between any two hosts do not look like that.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.io.volumes import PairVolumes
from llmprism.methods.prism.parameters import HALF
from llmprism.methods.prism.records.connections import LIGHT_SHARE, MINOR_SHARE
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components, distinct

QUEUE_PAIRS = 16  # between two addresses, at most: the busiest pair has so many connections
PARTNERS = 4  # of an endpoint in another group, at most
ALIKE = 0.5  # volumes differ from the median by less than this share of it


def joining_pairs(volumes: PairVolumes, topology: Topology) -> Bools:
    """Whether each pair of ``volumes`` may join its two ends to one job."""
    at_src, at_dst = _busiest(volumes, topology.servers)
    most, least = np.maximum(at_src, at_dst), np.minimum(at_src, at_dst)
    joins: Bools = volumes.bytes >= MINOR_SHARE * most
    maybe = ~joins & (least >= MINOR_SHARE * most)
    maybe &= volumes.bytes >= LIGHT_SHARE / QUEUE_PAIRS * most
    for pairs in _between_groups(volumes, topology.servers, joins, np.flatnonzero(maybe)):
        joins[pairs] = True
    return joins


def _busiest(volumes: PairVolumes, servers: Codes) -> tuple[Floats, Floats]:
    """Bytes of the busiest pair of the source of each pair, and of its destination.

    At least a minor share of what the busiest pair of the whole server has: a NIC without training
    traffic has services only.
    """
    own, of_server = np.zeros((2, servers.size))
    for ends in (volumes.src, volumes.dst):
        np.maximum.at(own, ends, volumes.bytes)
        np.maximum.at(of_server, servers[ends], volumes.bytes)
    busiest = np.maximum(own, MINOR_SHARE * of_server[servers])
    return busiest[volumes.src], busiest[volumes.dst]


def _between_groups(
    volumes: PairVolumes, servers: Codes, joins: Bools, maybe: Ints
) -> Iterator[Ints]:
    """Those pairs of ``maybe`` that join two groups of servers; groups are what ``joins`` joins."""
    ends = distinct(servers[volumes.src[joins]], servers[volumes.dst[joins]])
    group = components(*ends, int(servers.max(initial=-1)) + 1)[servers]
    trains = np.zeros(group.size, np.bool_)
    trains[volumes.src[joins]] = trains[volumes.dst[joins]] = True
    members = np.bincount(group[trains], minlength=group.size)
    one, other = group[volumes.src[maybe]], group[volumes.dst[maybe]]
    key = np.minimum(one, other).astype(np.int64) * group.size + np.maximum(one, other)
    key[one == other] = -1  # joined already
    outside = key >= 0
    for both, places in pd.Series(maybe[outside]).groupby(key[outside]):
        pairs = places.to_numpy()
        if any(
            _are_activations(volumes, pairs, group == label, int(members[label]))
            for label in divmod(int(str(both)), group.size)
        ):
            yield pairs


def _are_activations(volumes: PairVolumes, pairs: Ints, inside: Bools, members: int) -> bool:
    """Whether most of the ``members`` of a group have few partners in another, and alike volumes.

    ``inside`` marks the endpoints of the group.
    """
    src, dst = volumes.src[pairs], volumes.dst[pairs]
    own = np.where(inside[src], src, dst)
    partners = np.unique(np.column_stack([own, np.where(inside[src], dst, src)]), axis=0)
    per_member = np.unique(partners[:, 0], return_counts=True)[1]
    size = volumes.bytes[pairs]
    away = np.median(np.abs(size - np.median(size)))
    covered = per_member.size >= HALF * members
    return bool(covered and np.median(per_member) <= PARTNERS and away <= ALIKE * np.median(size))
