"""A NIC that carries nothing more, while all others of its job still carry other traffic.

A NIC may stop between two transfers. Then nothing waits on the wire, and no message is late that
others sent in time. But hosts also exchange what is not of the job: if that goes on at all NICs of
the job but one, and an exchange of gradients was never finished, this NIC stopped.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.stops.tails import (
    Stuck,
    Tail,
    ends_of,
    quiet_until_ns,
    unfinished_groups,
)

CLEARLY = 10  # records of each other NIC: chance makes one of them silent in 1 of 20,000 cases


def stuck_in_silence(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """The only NIC of an unfinished exchange without a record after ``tail``; None otherwise."""
    flows, ends = context.flows, job.phases.endpoints
    later = flows.start_ns > tail.end_ns
    if tail.next_ns is not None:
        later &= flows.end_ns < quiet_until_ns(tail.end_ns, tail.next_ns)
    count = ends_of(flows, later)
    silent = ends[count[ends] == 0]
    if silent.size != 1 or np.sort(count[ends])[1:].min(initial=CLEARLY) < CLEARLY:
        return None
    if int(silent[0]) not in unfinished_groups(context, job, tail):
        return None
    return Stuck(int(silent[0]), tail.end_ns, "no more traffic of its NIC", cause="stopped_nic")
