"""Passes and gradients of one step under one number: gradients are reduced after the passes.

If the records begin within a step, both kinds of traffic rest between steps, and neither silences
nor equal parts show which of them begins a step. Two signs show a wrong number, and each counts
only if most steps have it:

- The gradients of a rank end before its passes of the same step begin: they are those of the step
  before. Or, if the records have passes before the first step, each step has the passes of the next
  one: the last passes may be those of a step that never came to its gradients.
- A rank still sends activations after its gradients of the same step: the former belong to the
  next step.

Where parameters are gathered during the first pass, neither is the case: they follow gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import EQUAL, MOSTLY
from llmprism.methods.prism.phases.moments import MISSING, Moments, moments_of
from llmprism.numerics.arrays import Bools, Codes, Floats


def with_gradients_last(
    flows: FlowTable, classes: Sequence[KindOf], endpoints: Codes, count: int
) -> list[KindOf]:
    """``classes`` with all traffic of a rank in the step whose gradients end it.

    ``count`` is the number of steps of the first epoch; others begin with a step.
    """
    found = _with_earlier_gradients(flows, list(classes), endpoints, count)
    return _with_later_passes(flows, found, endpoints, count)


def _with_earlier_gradients(
    flows: FlowTable, classes: list[KindOf], endpoints: Codes, count: int
) -> list[KindOf]:
    """Count gradients that ranks reduce before the passes of a step to the step before."""
    passes, reduced = (_moments(flows, classes, kind, endpoints, count) for kind in ("pp", "dp"))
    both = (passes.start_ns != MISSING) & (reduced.end_ns != MISSING)
    before = both & (reduced.end_ns <= passes.start_ns)
    early = before.sum(axis=1) >= np.maximum(1, MOSTLY * both.sum(axis=1))
    if not early.any():
        return classes
    if all(_has_earlier(one, count) for one in classes if one.kind == "pp"):
        return [_one_later(one, count) if one.kind == "pp" else one for one in classes]
    found = []
    for one in classes:
        if one.kind == "dp":
            own = np.isin(flows.src[one.traffic.row], endpoints[early])
            own &= (one.step >= 0) & (one.step < count)
            one = replace(one, step=one.step - own)
        found.append(one)
    return found


def _has_earlier(one: KindOf, count: int) -> bool:
    """Whether a class of the first epoch has as much before its first step as in another one."""
    start_ns, size = one.traffic.start_ns, one.traffic.size
    steps = (one.step >= 0) & (one.step < count)
    if not steps.any():
        return bool((one.step >= count).any())
    before = (one.step < 0) & (start_ns < start_ns[steps].min())
    usual = np.median(np.bincount(one.step[steps], size[steps], count))
    return bool(size[before].sum() >= (1 - EQUAL) * usual)


def _one_later(one: KindOf, count: int) -> KindOf:
    """A class with records of the first epoch under the next step, those of the last in none."""
    start_ns = one.traffic.start_ns
    steps = (one.step >= 0) & (one.step < count)
    if not steps.any():
        return one
    step = np.where(steps, one.step + 1, one.step)
    step[(one.step < 0) & (start_ns < start_ns[steps].min())] = 0
    step[one.step == count - 1] = -1
    return replace(one, step=step.astype(one.step.dtype))


def _with_later_passes(
    flows: FlowTable, classes: list[KindOf], endpoints: Codes, count: int
) -> list[KindOf]:
    """Count messages of a pipeline after the gradients of a rank to the next step."""
    end_ns = _moments(flows, classes, "dp", endpoints, count).end_ns
    place = np.zeros(len(flows.addresses), np.int64)
    place[endpoints] = np.arange(endpoints.size)
    found = []
    for one in classes:
        if one.kind == "pp":
            known = (one.step >= 0) & (one.step < count)
            rank = place[flows.src[one.traffic.row]]
            ended = end_ns[rank, np.where(known, one.step, 0)]
            late = known & (ended != MISSING) & (one.traffic.start_ns >= ended)
            later = np.where(late, one.step + 1, one.step)
            later[late & (later == count)] = -1
            if _in_most_steps(one, late, count) and _as_equal(one, later, count):
                one = replace(one, step=later)
        found.append(one)
    return found


def _moments(
    flows: FlowTable, classes: Sequence[KindOf], kind: str, endpoints: Codes, count: int
) -> Moments:
    """When each endpoint moves traffic of a ``kind`` in the ``count`` steps of the first epoch."""
    own = [one for one in classes if one.kind == kind]
    moved = [(one.traffic, np.where(one.step < count, one.step, -1)) for one in own]
    return moments_of(flows, moved, endpoints, count, collectives=False)


def _in_most_steps(one: KindOf, late: Bools, count: int) -> bool:
    """Whether nearly all steps but the last one have records that are ``late``."""
    steps = np.unique(one.step[late])
    return bool(np.count_nonzero(steps < count - 1) >= max(1, MOSTLY * (count - 1)))


def _as_equal(one: KindOf, later: Codes, count: int) -> bool:
    """Whether steps under the numbers in ``later`` move bytes as equally as they do now."""
    now, then = (_inner_volumes(one, step, count) for step in (one.step, later))
    return _spread(then) <= _spread(now) + EQUAL


def _inner_volumes(one: KindOf, step: Codes, count: int) -> Floats:
    """Bytes of each step but the first and the last, which the recording may cut off."""
    known = (step >= 0) & (step < count)
    return np.bincount(step[known], one.traffic.size[known], count)[1:-1].astype(np.float64)


def _spread(volumes: Floats) -> float:
    median = float(np.median(volumes)) if volumes.size else 0.0
    return float(np.abs(volumes - median).mean()) / median if median > 0 else 0.0
