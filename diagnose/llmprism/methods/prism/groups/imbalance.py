"""Work that is divided unevenly: other ranks are slow in every step, so ranks scatter more.

The series is the scatter of ranks in each step (their median absolute deviation, which one slow
rank does not change), as a share of its usual value. Where ranks exchange tokens with experts,
these are the likelier reason; else it is the length of sequences.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from llmprism.methods.prism.baseline import spread
from llmprism.methods.prism.durations import COMPUTE, Durations
from llmprism.methods.prism.groups.base import Group, Named
from llmprism.methods.prism.parameters import FEWEST_SCATTERED, SLOW_DEVIATIONS, WARM_UP
from llmprism.methods.prism.windows import Window
from llmprism.numerics.missing import TO_SIGMA, nanmedian

CAUSES = ("length_imbalance", "expert_imbalance")


def imbalance(durations: Durations) -> Iterable[Group]:
    """All ranks, as they scatter."""
    table = durations.compute
    rows = np.flatnonzero(table.normal_ns > 0)
    if rows.size < FEWEST_SCATTERED:
        return
    own = table.excess[rows]
    scatter = nanmedian(np.abs(own - nanmedian(own, axis=0)), axis=0) * TO_SIGMA
    usual = float(np.nan_to_num(nanmedian(scatter[None], axis=1)[0]))
    if usual <= 0:
        return
    more = np.log(np.maximum(scatter, usual / 10) / usual)
    chance = 1 / np.sqrt(2 * (rows.size - 1))
    error = max(float(np.nan_to_num(spread(more[None])[0])), float(chance))
    lost = durations.on_path.compute_longer[rows].sum(axis=0)
    yield Group(COMPUTE, rows, 1, more, error, lost, _named)


def _named(durations: Durations, window: Window) -> Named | None:
    if window.last < WARM_UP or window.first == window.last:
        return None  # in one step: a save or an evaluation
    return named_uneven(durations)


def named_uneven(durations: Durations) -> Named:
    """The job, whose work is divided unevenly."""
    has_experts = any(one.kind == "ep" for one in durations.graph.nodes.communicators)
    cause, other = CAUSES[has_experts], CAUSES[not has_experts]
    name = durations.job.name
    return Named("job", "uneven_work", cause, "job", name, {"or_causes": [other]})


def is_uneven(durations: Durations, window: Window) -> bool:
    """Whether ranks scatter clearly more in a window."""
    for group in imbalance(durations):
        inside = group.excess[window.steps(durations.steps)]
        inside = inside[np.isfinite(inside)]
        clearly = SLOW_DEVIATIONS * group.error / np.sqrt(max(inside.size, 1))
        return inside.size > 0 and float(inside.mean()) > clearly
    return False
