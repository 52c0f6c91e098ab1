"""Transfers that waited until the job went on: one of their ends was silent meanwhile.

A NIC that carried anything meanwhile is not the silent one. What ends shortly before the transfers
shows nothing: the NIC may be back by then. Of the others, the NIC that most of the waiting
transfers have in common is named, those of other traffic included. If two have as many in common,
the one that carried nothing for longer before is named: its next transfer was due and never came.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import QUARTER
from llmprism.methods.prism.stops.tails import Stuck, Tail, ends_of, quiet_until_ns
from llmprism.numerics.arrays import Ints

NAMED = 3  # ends at most


def stuck_on_the_wire(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The endpoint of most transfers that waited all the time, and that carried nothing else.

    Of two with equally many, and silent for as long, the one that was to receive: the other sent.
    """
    flows, rows = context.flows, tail.waiting
    if not rows.size:
        return None
    since_ns, until_ns = int(flows.start_ns[rows].min()), int(flows.end_ns[rows].min())
    count = len(flows.addresses)
    received = np.bincount(flows.dst[rows], minlength=count)
    number = received + np.bincount(flows.src[rows], minlength=count)
    latest_ns = int(flows.start_ns[rows].max())
    quiet_ns = quiet_until_ns(latest_ns, until_ns)
    later = (flows.start_ns > latest_ns) & (flows.start_ns < quiet_ns)
    number = np.where(number > 0, number + ends_of(flows, later & (flows.end_ns >= quiet_ns)), 0)
    alive = ends_of(flows, later & (flows.end_ns < quiet_ns)) > 0
    if (number * ~alive).any():
        number[alive] = 0
    ends = np.flatnonzero(number)
    last_ns = _last_ends_ns(context, ends, since_ns)
    longer = last_ns.max() - last_ns > QUARTER * job.period_ns
    order = ends[np.lexsort((-received[ends], ~longer, -number[ends]))].tolist()
    return Stuck(order[0], since_ns, "waited with a transfer", tuple(order[1:NAMED]), "stopped_nic")


def _last_ends_ns(context: Context, ends: Ints, before_ns: int) -> Ints:
    """When the last record of each of ``ends`` ended that ended before a time [ns]."""
    flows = context.flows
    latest_ns = np.full(len(flows.addresses), int(flows.start_ns.min()))
    done = np.flatnonzero(flows.end_ns < before_ns)
    for side in (flows.src, flows.dst):
        np.maximum.at(latest_ns, side[done], flows.end_ns[done])
    last_ns: Ints = latest_ns[ends]
    return last_ns
