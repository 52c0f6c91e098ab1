"""Parts of the network that several jobs share: what all of them show about one.

A slow switch slows every job that crosses it, and a job that crosses it without being slow speaks
against it. So the odds of a part are those of all jobs together, over the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.groups.base import Named
from llmprism.methods.prism.groups.network import (
    SYMPTOM,
    in_pauses,
    log_odds,
    named_of,
    seen_in,
    seen_within,
)
from llmprism.methods.prism.windows import Window


def with_other_jobs(
    named: Named, window: Window, own: Durations, others: Sequence[Durations]
) -> Named:
    """``named`` again, by what other jobs show as well, if it is a part of the network."""
    if named.symptom != SYMPTOM or not others:
        return named
    job = own.job
    odds = log_odds(own, seen_within(own, window))
    if not odds:
        return named
    first_ns, last_ns = job.start_ns[window.first], job.end_ns[window.last]
    for other in others:
        inside = (other.job.end_ns > first_ns) & (other.job.start_ns < last_ns)
        if inside.any() and (~inside).sum() > 1:
            for part, more in log_odds(other, [seen_in(other, inside, inside)]).items():
                odds[part] = odds.get(part, 0.0) + more
    jobs = 1 + sum(np.isfinite(other.transfer.excess).any() for other in others)
    return in_pauses(named_of(own.context, odds, {**named.evidence, "jobs": int(jobs)}), window)
