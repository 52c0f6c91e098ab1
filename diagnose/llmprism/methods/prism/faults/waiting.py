"""Transfers that waited until the job went on: one of their ends was silent meanwhile.

A NIC that carried anything meanwhile is not the silent one. Of the others, the one that most of
the transfers have in common is named.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.tails import Stuck, Tail

RECEIVES = 1.01  # of two with equally many, the one that was to receive: its partner had sent
NAMED = 3  # ends at most


def stuck_on_the_wire(context: Context, tail: Tail) -> Stuck | None:
    """The endpoint of most transfers that waited all the time, and that carried nothing else."""
    flows, rows = context.flows, tail.waiting
    if not rows.size:
        return None
    since_ns, until_ns = int(flows.start_ns[rows].min()), int(flows.end_ns[rows].min())
    times = np.zeros(len(flows.addresses))
    np.add.at(times, flows.src[rows], 1.0)
    np.add.at(times, flows.dst[rows], RECEIVES)
    latest_ns = int(flows.start_ns[rows].max())
    inside = np.flatnonzero((flows.start_ns > latest_ns) & (flows.end_ns < until_ns))
    alive = np.zeros(times.size, np.bool_)
    alive[flows.src[inside]] = alive[flows.dst[inside]] = True
    if (times * ~alive).any():
        times[alive] = 0.0
    order = np.argsort(-times, kind="stable")[: int((times > 0).sum())].tolist()
    others = tuple(order[1:NAMED])
    return Stuck(order[0], since_ns, "a transfer waited", others, "stopped_nic")
