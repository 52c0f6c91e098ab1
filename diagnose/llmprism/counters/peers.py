"""What each NIC moves in a step, beside the NICs with the same role.

NICs of one job that carry the same bytes have the same role: a stage, a shard, a rail. A role is a
run of equal bytes in the sorted list. Within a role the curves of all NICs have one shape, so a
NIC whose bursts are longer than those of its role is slower, or shares its link.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from llmprism.counters.curves import Curves
from llmprism.counters.steps import JobSteps
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation

SAME_BYTES = 0.04
"""By which the bytes of two NICs of a role differ at most: retransmissions, and traffic besides."""
PHASES = 32
"""Parts of a step, over which its bursts are averaged."""
FEWEST_PEERS = 3
"""Other NICs of a role that show what is usual."""
LONGER_BURST = 1.3
"""Times the burst of its peers."""
DEVIATIONS = 8.0
"""Deviations of the bursts of peers, for one of them to stand out."""
FOREMOST = 0.8
"""Of the servers of a job: the set of NICs that so many of them use, the others should."""


@dataclass(frozen=True)
class Members:
    """The NICs of one job.

    Attributes
    ----------
    rows : ports, shape (members,).
    role : number of the role of each, by falling bytes, shape (members,).
    in_bytes, out_bytes : in a step, or in the whole recording if steps are unknown,
        shape (members,).
    """

    rows: Ints
    role: Ints
    in_bytes: Floats
    out_bytes: Floats


def members_of(curves: Curves, rows: Ints, period_ns: int) -> Members:
    """Bytes and role of each NIC of a job."""
    total = curves.moved[rows].sum(axis=2, dtype=np.float64)
    per_step = period_ns / curves.span_ns if period_ns else 1.0
    return Members(rows, roles(total.min(axis=1)), *(total * per_step).T)


def roles(size: Floats) -> Ints:
    """Number of each NIC's role: runs of the sorted sizes without a jump.

    >>> roles(np.array([100.0, 50.0, 101.0, 51.0]))
    array([0, 1, 0, 1])
    """
    order = np.argsort(-size, kind="stable")
    fall = -np.diff(np.log(np.maximum(size[order], 1.0)))
    role = np.zeros(size.size, np.int64)
    role[order[1:]] = np.cumsum(fall > SAME_BYTES)
    return role


def burst_shares(curves: Curves, rows: Ints, steps: JobSteps) -> Floats:
    """Share of a step for which each port is busy, shape (rows,).

    It is the length of a burst of even rate with the same bytes and the same sum of squares.
    """
    folded = np.array([_folded(port, curves, steps.edges_ns) for port in curves.exchanged(rows)])
    squares = (folded**2).sum(axis=1)
    sums = folded.sum(axis=1) ** 2
    return np.where(squares > 0, sums / np.maximum(squares, 1e-30), 0.0) / PHASES


def _folded(port: Floats, curves: Curves, edges_ns: Ints) -> Floats:
    """Bytes of a port in each part of its steps, over all steps, shape (PHASES,)."""
    bounds = (edges_ns - curves.start_ns) / curves.bin_ns
    passed = np.concatenate([[0.0], np.cumsum(port)])
    part = np.arange(PHASES + 1) / PHASES
    places = bounds[:-1, None] + part * np.diff(bounds)[:, None]
    at = np.interp(places, np.arange(passed.size), passed)
    return np.asarray(np.diff(at, axis=1).sum(axis=0))


def longer_bursts(share: Floats, role: Ints) -> tuple[Floats, Bools]:
    """How many times as long each NIC's burst is as those of its role, and whether it stands out.

    All of a role may be slow together; then none stands out.
    """
    ratio, out = np.ones(share.size), np.zeros(share.size, bool)
    for number in np.unique(role):
        same = np.flatnonzero(role == number)
        if same.size <= FEWEST_PEERS:
            continue
        middle = float(np.median(share[same]))
        spread = deviation(share[same])
        ratio[same] = share[same] / max(middle, 1e-9)
        least = max(LONGER_BURST * middle, middle + DEVIATIONS * spread)
        out[same] = share[same] > least
    return ratio, out


def unlike_the_others(
    busy: Bools, in_job: Bools, servers: Ints, nic: Ints
) -> tuple[list[int], list[int]]:
    """Ports that are idle or busy where nearly all servers of the job use another set of NICs.

    Where servers use NICs of many sets, because several jobs share them, nothing is usual.

    Parameters
    ----------
    busy, in_job : of each port, whether it has traffic, and whether it is in the job,
        shape (ports,).
    servers, nic : of each port; -1 for an unknown index of the NIC, shape (ports,).

    Returns
    -------
    The idle ones, and the busy ones.
    """
    homes = np.unique(servers[in_job])
    sets = {int(home): frozenset(nic[in_job & (servers == home)].tolist()) for home in homes}
    usual, count = Counter(sets.values()).most_common(1)[0]
    if count < FOREMOST * homes.size or homes.size <= FEWEST_PEERS or -1 in usual:
        return [], []
    idle, extra = [], []
    for home, used in sets.items():
        ports = np.flatnonzero(servers == home)
        lacking = [p for p in ports if nic[p] in usual - used and not busy[p]]
        idle += [int(p) for p in lacking]
        extra += [int(p) for p in ports if in_job[p] and nic[p] not in usual]
    return idle, extra
