"""Steps of a job that shards its parameters: each one begins with a gather.

The first forward pass needs the parameters of the first layers at once, so a rank gathers them as
soon as its step begins. So the begin of a step is seen, and need not be derived from the end of the
step before. The update of the parameters, which ends a step, leaves no traffic. It is taken to
last until the next step begins, unless that takes much longer than usual: then there is a pause
between the two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.phases import Phases
from llmprism.methods.prism.timeline import PAUSE, Ranks, filled, relative
from llmprism.numerics.missing import finite_median

SHARDED = ("zero3", "hybrid")  # ways to shard in which a step begins with a gather


def begun_by_gathers(ranks: Ranks, phases: Phases) -> Ranks:
    """``ranks`` with steps that last from one first gather to the next."""
    start = filled(relative(phases.moments["dp"].start_ns, ranks.origin_ns))
    rest = np.full_like(start, np.nan)
    rest[:, :-1] = start[:, 1:] - ranks.end[:, :-1]
    rest[:, phases.first_of_epoch[1:] - 1] = np.nan
    usual = finite_median(rest)
    if not usual > 0:
        return ranks
    longest = np.full(phases.count, usual + PAUSE * finite_median(np.diff(start, axis=1)))
    longest[phases.first_of_epoch] = np.inf
    update = np.where(rest <= longest, rest, usual)
    return replace(ranks, start=np.minimum(start, ranks.end), end=ranks.end + np.maximum(update, 0))
