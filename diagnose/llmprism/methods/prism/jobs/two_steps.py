"""Two steps of a pipeline, which are too few to show that anything repeats.

At the end of a step every activation has got its gradient, and nothing is under way. Within a step
of a pipeline this does not happen: the first stage sends several activations before it gets the
first gradient. So if all couples of stages are even at one moment only, and all connections have
moved half of their bytes by then, the first of two steps ends.

Jobs without a pipeline move half of their bytes within a step as well: between two equal buckets,
or between the two halves of a ring all-reduce. Nothing is claimed about these.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.cycles.balance import balanced_at, both_ways
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.kinds.unanswered import sends_ahead
from llmprism.methods.prism.parameters import EQUAL, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Stepping
from llmprism.numerics.arrays import Codes

QUALITY = 0.8  # of two steps: nothing shows that a third one would be alike


def two_steps(connections: Connections, component: Component, nodes: int) -> Stepping | None:
    """The two steps of a ``component`` with a pipeline; None if its records do not show two.

    ``nodes`` is the number of endpoints of all traffic.
    """
    classes = component.classes
    first = min(range(len(classes)), key=lambda i: int(classes[i].traffic.start_ns[0]))
    begin_ns = _second_half_ns(classes[first].traffic)
    step_of = tuple((one.traffic.start_ns >= begin_ns).astype(np.int32) for one in classes)
    halves = list(zip(classes, step_of, strict=True))
    if not all(_are_halves(one.traffic, step, begin_ns) for one, step in halves):
        return None
    if not any(
        sends_ahead(connections, one, step, 2, nodes) and _even_between_only(one.traffic, step)
        for one, step in halves
    ):
        return None
    lead, step = halves[first]
    start_ns = lead.traffic.start_ns[np.searchsorted(step, (0, 1))]
    end_ns = np.array([lead.traffic.end_ns[step == i].max() for i in (0, 1)])
    return Stepping(2, QUALITY, first, step_of, start_ns, end_ns)


def _second_half_ns(traffic: Traffic) -> int:
    """When ``traffic`` goes on after its longest silence near half of its bytes [ns]."""
    moved = np.cumsum(traffic.size[:-1], dtype=np.float64) / float(traffic.size.sum())
    near = np.flatnonzero(np.abs(2 * moved - 1) <= EQUAL)
    if not near.size:
        return int(traffic.start_ns[0])
    after = near[np.argmax(traffic.rests_ns()[near])] + 1
    return int(traffic.start_ns[after])


def _are_halves(traffic: Traffic, step: Codes, begin_ns: int) -> bool:
    """Whether ``traffic`` has moved half of its bytes in the first ``step``, and all of that has
    ended when the second one begins."""
    before = step == 0
    if not before.any() or before.all() or int(traffic.end_ns[before].max()) > begin_ns:
        return False
    total = float(traffic.size.sum())
    whole = both_ways(traffic.couple, traffic.forth, traffic.size)
    half = both_ways(traffic.couple, traffic.forth, np.where(before, traffic.size, 0))
    even = abs(2 * float(traffic.size[before].sum()) - total) <= EQUAL * total
    return even and bool((np.abs(2 * half - whole) <= SMALL * whole).all())


def _even_between_only(traffic: Traffic, step: Codes) -> bool:
    """Whether all couples are even at the border of the two steps, and at no other record."""
    at = np.arange(1, len(traffic))
    even = balanced_at(traffic.couple, traffic.forth, traffic.size, at, len(traffic))
    return even is not None and np.array_equal(at[even], np.flatnonzero(np.diff(step)) + 1)
