"""Ends of a job that moved nothing of a step that all others began.

Where two servers exchange gradients, no hop shows how far another one came. But who takes part
in every step, and neither sends nor receives anything of one, has stopped, or its partner has.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.stops.tails import Stuck, Tail, ends_of

NAMED = 3  # ends at most


def stuck_in_silence(context: Context, job: JobView, tail: Tail) -> Stuck | None:
    """One of the few ends without a record in ``tail``; None if there are none, or more."""
    flows, ends = context.flows, job.phases.endpoints
    rows = np.concatenate([*tail.rows.values()])
    usual = np.concatenate([part.one.traffic.row for part in job.phases.classes])
    moved, known = (ends_of(flows, chosen)[ends] > 0 for chosen in (rows, usual))
    silent = ends[known & ~moved].tolist()
    if not 0 < len(silent) <= NAMED or 2 * len(silent) > known.sum():
        return None
    since_ns = int(flows.start_ns[rows].min())
    return Stuck(silent[0], since_ns, "moved nothing of a step", tuple(silent[1:]))
