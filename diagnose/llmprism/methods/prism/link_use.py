"""How full are the links of a transfer while it lasts (:func:`llmprism.io.spread.link_uses`)?

Use is near one for a healthy link that several jobs share. It is low where something is slower than
its capacity says, where records hold silences, and in a ring that waits for a slow hop.

Those who share a link take as long as all of their bytes need. A step in which transfers of other
jobs fall into those of this one may be longer than one in which they do not, and nothing is wrong.
So what a transfer takes longer is *crowded* as far as others have a larger share of its fullest
link than in nearly all steps that are not slow. A slow link takes longer with the same share.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from llmprism.io.spread import link_uses
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.graph.traffic import in_cells, place_of
from llmprism.methods.prism.parameters import NEARLY, OWN_SHARE
from llmprism.methods.prism.windows import Window
from llmprism.numerics.arrays import Floats, weighted_quantile
from llmprism.numerics.missing import finite_median, nanquantile


class LinkUse(NamedTuple):
    """Of each connection in each step, in rows of :class:`~.graph.traffic.Traffic`.

    Attributes
    ----------
    peak : use of its fullest link, which that of nine tenths of the bytes does not exceed, since
        silences in records differ; NaN where records show none.
    others : use of that link by others alone.
    busy_ns : time under way.
    at_peak_ns : time that its bytes take with that use: all of it for one that never rests.
    """

    peak: Floats
    others: Floats
    busy_ns: Floats
    at_peak_ns: Floats


@measured_once
def link_use_of(context: Context, job: JobView) -> LinkUse:
    """How each connection of ``job`` uses its links in each step."""
    place = place_of(context, job)
    (use, others), size = _of_records(context), context.flows.bytes.astype(np.float64)
    best = np.full((int(place.max()) + 1) * job.count, np.nan)
    shared, sent, busy_ns, worked_ns = np.zeros((4, best.size))
    for every, _, cell in in_cells(context, job, place):
        busy_ns += np.bincount(cell, context.flows.lengths_ns(every), best.size)
        shown = np.isfinite(use[every])
        row, at = every[shown], cell[shown]
        some, value = weighted_quantile(at, use[row], size[row], NEARLY)
        best[some] = np.fmax(best[some], value)
        shared += np.bincount(at, size[row] * others[row], best.size)
        sent += np.bincount(at, size[row], best.size)
        worked_ns += np.bincount(at, context.flows.lengths_ns(row) * use[row], best.size)
    shared = np.where(sent > 0, shared / np.maximum(sent, 1.0), np.nan)
    columns = best, shared, busy_ns, worked_ns / best
    return LinkUse(*(one.reshape(-1, job.count) for one in columns))


def _of_records(context: Context) -> tuple[Floats, Floats]:
    """Use of each record, and what of that is of other jobs: once for all jobs."""
    if _of_records not in context.measured:
        longest_ns = max([1.0, *(job.period_ns for job in context.jobs)])
        owner = np.full(len(context.connections), -1)
        for number, job in enumerate(context.jobs):
            for part in job.phases.classes:
                owner[part.connections] = number
        of_row = np.where(context.connections.small, -2, owner[context.connections.of_row])
        found = link_uses(context.flows, context.topology, of_row, 2 * longest_ns)
        context.measured[_of_records] = found
    return cast("tuple[Floats, Floats]", context.measured[_of_records])


def is_crowded(durations: Durations, window: Window) -> bool:
    """Whether others explain what the transfers of a window take longer."""
    affected, communicators = window.affected(durations.steps), durations.graph.nodes.communicators
    _, others, every_ns, _ = link_use_of(durations.context, durations.job)
    lost = np.maximum(durations.on_path.transfer_longer, 0.0)
    crowded = np.zeros_like(lost)
    for number in np.flatnonzero(lost[:, affected].any(axis=1)).tolist():
        calm = ~affected & (lost[number] < np.median(lost[number][affected]) / 2)
        rows = durations.traffic.place[communicators[number].connections]
        busy_ns = every_ns[rows]
        lasting_ns = busy_ns.max(axis=0)
        longer_ns = lasting_ns - np.nan_to_num(finite_median(lasting_ns[calm]))
        lost[number] = np.clip(longer_ns, 0.0, lost[number])
        usual = np.nan_to_num(nanquantile(others[rows][:, calm], NEARLY))
        more = np.nan_to_num(others[rows] - usual[:, None])
        crowded[number] = np.maximum(more * busy_ns, 0.0).max(axis=0)
    return bool(np.minimum(crowded, lost)[:, affected].sum() > OWN_SHARE * lost[:, affected].sum())
