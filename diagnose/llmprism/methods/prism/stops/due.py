"""When a rank was to send the message that it did not send in an unfinished step.

A rank of a pipeline that stops keeps all others of the pipeline waiting, so none of them joins its
collectives. The rank that stopped is the one whose next message was due first: ranks that wait for
it are due later. The bytes that a rank sent in the unfinished step show how far it came, compared
with a finished step. This holds also where records hold several messages: the bytes of a record are
taken to be sent evenly from its begin to its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.stops.tails import Tail
from llmprism.numerics.arrays import Ints, order_in_groups


def in_order_of_sending(
    context: Context, job: JobView, tail: Tail, ends: Sequence[int]
) -> list[int]:
    """``ends``, the one that was to send first comes first; those alike, as they are."""
    parts = [part for part in job.phases.classes if part.kind != "dp"]
    if not parts or len(ends) < 2:
        return [*ends]
    row = np.concatenate([part.one.traffic.row[part.step >= 0] for part in parts])
    step = np.concatenate([part.step[part.step >= 0] for part in parts])
    flows = context.flows
    begin_ns = np.full(job.count, np.iinfo(np.int64).max)
    np.minimum.at(begin_ns, step, flows.start_ns[row])
    sent = np.concatenate([rows for kind, rows in tail.rows.items() if kind != "dp"])
    due = {}
    for end in ends:
        own = flows.src[row] == end
        moved = float(flows.bytes[sent[flows.src[sent] == end]].sum())
        due[end] = _due_ns(context, row[own], step[own], begin_ns, moved)
    return sorted(ends, key=lambda end: due[end])


def _due_ns(context: Context, row: Ints, step: Ints, begin_ns: Ints, moved: float) -> float:
    """When in a step a rank has sent so many bytes, by its rows; infinite if it has sent all."""
    flows = context.flows
    order = order_in_groups(step, flows.start_ns[row])
    row, step = row[order], step[order]
    size = flows.bytes[row].astype(np.float64)
    total = np.bincount(step, size, begin_ns.size)
    if not size.size or moved > (1 - EQUAL) * float(np.median(total[total > 0])):
        return np.inf
    before = np.cumsum(size) - size
    before -= before[np.searchsorted(step, step)]
    inside = (before <= moved) & (moved < before + size)
    part = (moved - before[inside]) / size[inside]
    since_ns = flows.start_ns[row[inside]] - begin_ns[step[inside]]
    due_ns = since_ns + part * flows.lengths_ns(row[inside])
    return float(np.median(due_ns)) if due_ns.size else np.inf
