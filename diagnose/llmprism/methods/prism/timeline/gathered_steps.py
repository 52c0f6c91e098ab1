"""Steps of a job that shards its parameters: each one begins with a gather.

The first forward pass needs the parameters of the first layers at once, so a rank gathers them as
soon as its step begins. So the begin of a step is seen, and need not be derived from the end of the
step before. The update of the parameters, which ends a step, leaves no traffic. It is taken to
last until the next step or an evaluation begins, unless that takes much longer than usual: then
there is a pause between the two. If evaluations follow some steps, they show how long it takes.
No update takes longer than the passes, which use each parameter for many tokens: then nearly all
of that time is host work.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.timeline.pauses import PAUSE
from llmprism.methods.prism.timeline.timeline import Ranks, filled, of_no_step, relative
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import finite_median

SHARDED = ("zero3", "hybrid")  # ways to shard in which a step begins with a gather


def begun_by_gathers(ranks: Ranks, phases: Phases) -> Ranks:
    """``ranks`` with steps that last from one first gather to the next."""
    start = filled(relative(phases.moments["dp"].start_ns, ranks.origin_ns))
    rest = np.full_like(start, np.nan)
    evaluation = _evaluations(ranks, phases)
    rest[:, :-1] = np.minimum(start[:, 1:], evaluation) - ranks.end[:, :-1]
    rest[:, phases.first_of_epoch[1:] - 1] = np.nan
    followed = np.flatnonzero(evaluation < start[:, 1:].min(axis=0))
    usual = finite_median(rest[:, followed] if followed.size else rest)
    if not usual > 0:
        return ranks
    beyond = 0.0 if followed.size else PAUSE * finite_median(np.diff(start, axis=1))
    longest = np.full(phases.count, usual + beyond)
    longest[phases.first_of_epoch] = np.inf
    update = np.where(rest <= longest, rest, usual)
    if usual > finite_median(ranks.end - start):
        update = np.zeros_like(rest)
    return replace(ranks, start=np.minimum(start, ranks.end), end=ranks.end + np.maximum(update, 0))


def _evaluations(ranks: Ranks, phases: Phases) -> Floats:
    """First gather after the end of each step but the last that belongs to no step [ns].

    Infinite where there is none. What follows the last step of an attempt is a step that was never
    finished.
    """
    begins = np.sort(of_no_step(phases)[0]) - ranks.origin_ns
    after = np.searchsorted(begins, np.nanmax(ranks.end[:, :-1], axis=0))
    found: Floats = np.append(begins.astype(np.float64), np.inf)[after]
    found[phases.first_of_epoch[1:] - 1] = np.inf
    return found
