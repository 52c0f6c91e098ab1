"""Parameters that are gathered in the next step, during its first forward pass.

With a sharded optimizer every step reduces gradients, updates parameters, and gathers them. Some
programs gather at the begin of the next step, while the first forward pass already computes. Both
forms move the same bytes in the same order, so the division into cycles puts the gathers at the
end of a step. They belong to the next step in two cases:

- The first activation of the next step leaves less than one forward pass after the last gather.
- The last step moves the bytes of its gradients, and nothing is gathered after it.

Without a pipeline, and while training continues, flows do not show the difference.

Parameters have as many bytes as gradients, or half as many if gradients are in single precision
and parameters in half precision. So gathers are the last half or the last third of the bytes of
a step, or less if gradients are reduced in every micro-batch, and they begin after a silence: the
update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import EQUAL, MOSTLY, QUARTER
from llmprism.methods.prism.phases.moments import MISSING, moments_of, period_of, repaired
from llmprism.methods.prism.phases.phases import ALIKE, GATHERED, Phases, moved
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.parted_gathers import FASTEST_NS
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups

AT_ONCE = 0.02  # of a forward pass: a layer of it takes longer


@dataclass(frozen=True)
class _Cells:
    """Data-parallel records of one class, by connection and step, in order of time.

    Attributes
    ----------
    order : index into the class's records.
    step : step of each, as found.
    cell : number of connection and step of each.
    other : bytes of the cell on the side of each record's begin where gradients are, as a share
        of the connection's usual bytes.
    size : bytes, as a share of the same.
    rest_ns : silence of the connection and step before each record; 0 for the first record.
    ahead : whether gathers are in their own step already, before the first activation.
    passed : whether each record begins after the last traffic of its sender's passes in the step.
    update_ns : the shortest update of the parameters of a connection.
    """

    order: Ints
    step: Codes
    cell: Ints
    other: Floats
    size: Floats
    rest_ns: Ints
    ahead: bool
    passed: Bools
    update_ns: float

    def rests(self, share: float) -> tuple[Ints, Floats]:
        """Longest silence of each connection and step between gradients and gathers; 0 for none.

        What is shorter than an update is none.
        Without the step at the edge of the window, whose gathers may be beyond it. Also, how far
        these silences are from where ``share`` puts them, as a share of the usual bytes.
        """
        whole, cells = self._whole
        off = np.abs(self.other - (1 - share))
        near = whole & (off <= EQUAL)
        longest = np.zeros(int(self.cell.max(initial=-1)) + 1, np.int64)
        np.maximum.at(longest, self.cell[near], self.rest_ns[near])
        longest[longest < self.update_ns] = 0
        at = near & (self.rest_ns == longest[self.cell])
        return longest[cells], off[at]

    @cached_property
    def _whole(self) -> tuple[Bools, Ints]:
        """Records of all steps but that at the edge of the window, and their cells."""
        edge = self.step.min(initial=0) if self.ahead else self.step.max(initial=0)
        whole = self.step != edge
        return whole, np.unique(self.cell[whole])

    def gathers(self, share: float) -> Bools:
        """Which records gather parameters."""
        middle = self.size / 2
        beyond: Bools = self.other + (-middle if self.ahead else middle) > 1 - share
        return beyond

    def may_gather(self, share: float) -> bool:
        """Whether that share may be gathers: they follow the last backward pass of their sender."""
        own = self.gathers(share)
        return self.ahead or not own.any() or bool(self.passed[own].mean() >= MOSTLY)


def with_late_gathers(
    flows: FlowTable, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Phases:
    """Count gathers of the next step into that step; unchanged if there are none."""
    given, phases = phases, _unparted(flows, connections, phases)
    own = {
        i: _cells(flows, connections, phases, one, pipelines.micro_batches)
        for i, one in enumerate(phases.classes)
        if one.kind == "dp"
    }
    sizes = [(phases.classes[i].one.connections.size, cells.ahead) for i, cells in own.items()]
    ahead = sum(size for size, own_ahead in sizes if own_ahead)
    late = 2 * ahead > sum(size for size, _ in sizes) or _overlaps(phases, pipelines)
    share = _share(list(own.values()), phases.count, late, _precedes_passes(phases, pipelines))
    if share is None:
        return given
    classes, gathers, rest = list(phases.classes), [], []
    for i, cells in own.items():
        gathered = np.zeros(classes[i].step.size, np.bool_)
        gathered[cells.order] = cells.gathers(share)
        after = classes[i].step + (gathered & (not cells.ahead))
        classes[i] = replace(classes[i], step=np.where(after < phases.count, after, -1))
        gathers.append(replace(classes[i], step=np.where(gathered, classes[i].step, -1)))
        rest.append(replace(classes[i], step=np.where(gathered, -1, classes[i].step)))
    gather, other = (
        moments_of(flows, moved(part, "dp"), phases.endpoints, phases.count)
        for part in (gathers, rest)
    )
    end_ns = np.maximum(gather.end_ns, other.end_ns)
    moments = phases.moments | {"dp": replace(other, end_ns=end_ns)}
    moments["dp"] = repaired(moments["dp"], phases.dp_group, period_of(moments))
    return replace(phases, classes=tuple(classes), moments=moments, gathers=gather)


def _unparted(flows: FlowTable, connections: Connections, phases: Phases) -> Phases:
    """``phases`` with all gathers of a step in that step, where its end divided them."""
    classes = [_in_one_step(connections, phases.count, one) for one in phases.classes]
    if all(one is before for one, before in zip(classes, phases.classes, strict=True)):
        return phases
    dp = moments_of(flows, moved(classes, "dp"), phases.endpoints, phases.count)
    return replace(phases, classes=tuple(classes), moments=phases.moments | {"dp": dp})


def _in_one_step(connections: Connections, count: int, one: KindOf) -> KindOf:
    """``one`` with steps of equal bytes, where the end of a step parts its gathers.

    So it does if gathers last longer than the first forward pass. The last step lacks some of them,
    and the first one the others, although it begins with its gradients: nothing was gathered before
    it. If the first step lacks them all, it is by exactly as much: records may also begin within a
    step.
    """
    if one.kind != "dp":
        return one
    known, cell = one.cells(connections, count)
    order = order_in_groups(cell // count, one.one.traffic.start_ns[known])
    known, place = known[order], cell[order] // count
    size = one.one.traffic.size[known].astype(np.float64)
    volume = one.volumes(connections, count)
    usual = np.maximum(1.0, np.median(volume, axis=1))
    total = volume.sum(axis=1)
    first, last = volume[:, [0, -1]].T / usual
    off = np.abs((count - total / usual)[:, None] - np.array(GATHERED)).min(axis=1)
    lacks = off <= np.where(last < 1 - EQUAL, EQUAL, ALIKE)
    if (lacks & (first < 1 - EQUAL)).mean() < MOSTLY:
        return one
    until = np.cumsum(size) - (np.cumsum(total) - total)[place]
    step = one.step.copy()
    step[known] = np.clip((until - size / 2) // usual[place], 0, count - 1)
    return replace(one, step=step)


def _cells(
    flows: FlowTable, connections: Connections, phases: Phases, one: KindOf, micro_batches: int
) -> _Cells:
    """Records of one class; gradients are reduced ``micro_batches`` times in a step at most."""
    traffic, count = one.one.traffic, phases.count
    known, cell = one.cells(connections, count)
    order = order_in_groups(cell, traffic.start_ns[known])
    known, cell = known[order], cell[order]
    size = traffic.size[known].astype(np.float64)
    volume = np.bincount(cell, size, one.one.connections.size * count)
    usual = np.maximum(1.0, np.median(volume.reshape(-1, count), axis=1))[cell // count]
    before = np.cumsum(size) - size - (np.cumsum(volume) - volume)[cell]
    opens = np.concatenate(([True], np.diff(cell) != 0))
    rest = np.zeros(known.size, np.int64)
    rest[1:] = traffic.start_ns[known][1:] - traffic.end_ns[known][:-1]
    rest[opens] = 0
    src = np.searchsorted(phases.endpoints, flows.src[traffic.row[known[opens]]])
    step = one.step[known]
    sent = phases.moments["pp"].start_ns[src, step[opens]]
    ahead = traffic.start_ns[known[opens]] < sent
    with_gathers = volume[cell[opens]] > (1 - EQUAL) * usual[opens]
    shown = (sent != MISSING) & with_gathers
    is_ahead = bool(shown.any() and ahead[shown].mean() >= MOSTLY)
    other = volume[cell] - before if is_ahead else before
    passed_ns = phases.moments["pp"].end_ns[src, step[opens]][np.cumsum(opens) - 1]
    passed = traffic.start_ns[known] >= passed_ns
    parts = phases.endpoints.size * max(micro_batches, 1)
    update_ns = FASTEST_NS / 2 * float(np.median(usual)) / parts  # gradients are half, or more
    return _Cells(known, step, cell, other / usual, size / usual, rest, is_ahead, passed, update_ns)


def _share(own: Sequence[_Cells], count: int, late: bool, soon: bool) -> float | None:
    """Share of gathers of the next step in the bytes of a step; None if there are none.

    A silence parts them from the gradients; of several shares that it fits, the nearest one is
    right. The last step lacks them or, if it is known that they
    are ``late``, the longest silence shows which they are. If they come ``soon`` after the
    gradients in all other steps, those of the last step were not recorded.
    """
    if not own:
        return None
    found: list[tuple[float, float, float]] = []
    for share in GATHERED:
        rests = [one.rests(share) for one in own]
        rest, off = (np.concatenate([*parts, np.empty(0)]) for parts in zip(*rests, strict=True))
        if rest.size and (rest > 0).mean() >= MOSTLY and all(one.may_gather(share) for one in own):
            found.append((float(np.median(rest)), -float(np.median(off)), share))
    lacking = [share for *_, share in sorted(found)[::-1] if _ends_without(own, share, count)]
    if lacking and (late or not soon):
        return lacking[0]
    return max(found)[-1] if found and late else None


def _overlaps(phases: Phases, pipelines: Pipelines) -> bool:
    """Whether a step's data-parallel traffic ends within the next step's first forward pass."""
    left = _left(phases, pipelines)
    return bool(left.size and (left < 1 - QUARTER).mean() >= MOSTLY)


def _precedes_passes(phases: Phases, pipelines: Pipelines) -> bool:
    """Whether a step's data-parallel traffic ends well before the first forward pass after it."""
    left = _left(phases, pipelines)
    return bool(left.size and (left > 1 + QUARTER).mean() >= MOSTLY)


def _left(phases: Phases, pipelines: Pipelines) -> Floats:
    """Time from a step's data-parallel traffic to the next step's first activation.

    In forward passes, for each rank of the first stage and each step; empty without a pipeline.
    Infinite where the activation leaves at once: no layer lies between, as in a first chunk without
    layers, so that it waited for all gathers, and they ended the step before.
    """
    if pipelines.length == 1 or not pipelines.forward_ns > 0:
        return np.empty(0)
    first = pipelines.stage == 0
    end = phases.moments["dp"].end_ns[first, :-1]
    sent = pipelines.first_sent[first, 1:]
    known = (end != MISSING) & np.isfinite(sent)
    between: Floats = (sent[known] - (end[known] - pipelines.origin_ns)) / pipelines.forward_ns
    return np.where((between >= 0) & (between < AT_ONCE), np.inf, between)


def _ends_without(own: Sequence[_Cells], share: float, count: int) -> bool:
    """Whether the last step has everything but the gathers."""
    volumes = []
    for one in own:
        last = one.step == count - 1
        volume = np.bincount(one.cell[last], one.size[last])
        volumes.append(volume[volume > 0])
    every = np.concatenate([*volumes, np.empty(0)])
    return bool(every.size and (np.abs(every - (1 - share)) <= EQUAL).mean() >= MOSTLY)
