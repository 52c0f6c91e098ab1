"""Jobs that have more to do for a while: longer sequences, larger or more micro-batches. No fault.

All activations grow with the tokens of a step, and so do exchanges within passes. Where nearly all
of them move more bytes in a stretch of longer steps than around it, and the steps are longer by no
more than that explains, nothing is slow. Computation grows at most with the square of the length of
sequences, as attention does. Work that is unevenly divided gives some ranks more and others less.

Gradients have as many bytes whatever a step works through. So a job that shows nothing else does
not show that it has more to do.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.faults.causes.imbalance import WIDER, by_chance
from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.suspects.cost import AROUND
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Floats
from llmprism.numerics.missing import finite_median, nanmedian

KINDS = ("pp", "tp", "cp", "ep")  # of traffic that grows with the tokens
SHOWN = ("stopped", "unequal_bytes")  # symptoms that do not rest on longer steps alone
LASTING = 3  # steps: in one or two, a record may be counted to another step in all connections
NEARLY_ALL = 0.75  # of the connections: so many grow by as much, or by more
GROWTH = 2  # power of the bytes that time grows with at most


def more_work(context: Context, one: Suspect) -> bool:
    """Whether the steps of ``one`` are longer because its job has more to do in them."""
    if one.symptom in SHOWN or one.last - one.first + 1 < LASTING:
        return False
    volumes = _volumes(context, one.job)
    before, after = max(0, one.first - AROUND), one.last + 1 + AROUND
    around = [*range(before, one.first), *range(one.last + 1, min(after, one.job.count))]
    if not len(volumes) or not around:
        return False
    usual = nanmedian(volumes[:, around], axis=1)
    inside = nanmedian(volumes[:, one.first : one.last + 1], axis=1)
    known = (usual > 0) & (inside > 0)
    if not known.any():
        return False
    growth = float(np.quantile(inside[known] / usual[known], 1 - NEARLY_ALL))
    least = max(WIDER, *(by_chance(context, one.job, kind) for kind in KINDS))
    length_ns = one.job.between_ends_ns
    longer = finite_median(length_ns[one.first : one.last + 1]) / finite_median(length_ns[around])
    return growth > 1 + least and longer <= growth**GROWTH


@measured_once
def _volumes(context: Context, job: JobView) -> Floats:
    """Bytes that each connection of those kinds moves in each step; NaN where it has no record."""
    parts = [part for part in job.phases.classes if part.kind in KINDS]
    volumes = [part.volumes(context.connections, job.count) for part in parts]
    size = np.vstack(volumes) if volumes else np.empty((0, job.count))
    return np.where(size > 0, size, np.nan)
