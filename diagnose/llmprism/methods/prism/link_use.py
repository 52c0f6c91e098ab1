"""How full are the links of a transfer while it lasts (:func:`llmprism.io.spread.link_uses`)?

Use is near one for a healthy link that several jobs share, and low where something is slower than
its capacity says, where records hold silences, and in a ring that waits for a slow hop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.spread import link_uses
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.parameters import NEARLY
from llmprism.numerics.arrays import Floats, Ints, weighted_quantile


@dataclass(frozen=True)
class LinkUse:
    """Use of links by the connections of a job; NaN where records show none.

    Attributes
    ----------
    place : row of each connection of the recording in the others, -1 for those of other jobs.
    best : use that nine tenths of the bytes of a step do not exceed, shape (connections, steps).
        Silences that a record holds differ, so some records show the use without them.
    others : share of the fullest link that other traffic takes, mean by bytes, of the same shape.
    busy_ns : time with a record, of the same shape.
    """

    place: Ints
    best: Floats
    others: Floats
    busy_ns: Floats


@measured_once
def link_use_of(context: Context, job: JobView) -> LinkUse:
    """Measure the connections of ``job``."""
    place = np.full(len(context.connections), -1)
    own = np.unique(np.concatenate([part.one.connections for part in job.phases.classes]))
    place[own] = np.arange(own.size)
    (use, others), flows = _of_records(context), context.flows
    best, (busy, shared, sent) = (
        np.full(own.size * job.count, np.nan),
        np.zeros((3, own.size * job.count)),
    )
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        row = part.one.traffic.row[known]
        at = place[context.connections.of_row[row]] * job.count + cell % job.count
        busy += np.bincount(at, flows.lengths_ns(row), busy.size)
        shown = np.isfinite(use[row])
        size = flows.bytes[row[shown]].astype(np.float64)
        some, value = weighted_quantile(at[shown], use[row[shown]], size, NEARLY)
        best[some] = np.fmax(best[some], value)
        shared += np.bincount(at[shown], size * others[row[shown]], busy.size)
        sent += np.bincount(at[shown], size, busy.size)
    shared = np.where(sent > 0, shared / np.maximum(sent, 1.0), np.nan)
    shape = (own.size, job.count)
    return LinkUse(place, *(one.reshape(shape) for one in (best, shared, busy)))


def _of_records(context: Context) -> tuple[Floats, Floats]:
    """Use of each record, and what of that is of others: once for all jobs."""
    if _of_records not in context.measured:
        longest_ns = max([1.0, *(job.period_ns for job in context.jobs)])
        context.measured[_of_records] = link_uses(context.flows, context.topology, 2 * longest_ns)
    found: tuple[Floats, Floats] = context.measured[_of_records]
    return found
