"""Parameters that are gathered in the next step, during its first forward pass.

With a sharded optimizer every step reduces gradients, updates parameters, and gathers them. Some
programs gather at the begin of the next step, while the first forward pass already computes. Both
forms move the same bytes in the same order, so the division into cycles puts the gathers at the
end of a step. They belong to the next step in two cases: its first activation leaves less than one
forward pass after the last gather, or the last step moves the bytes of its gradients, and nothing
is gathered after it. Without a pipeline, and while training continues, flows do not show the
difference.

Parameters have as many bytes as gradients, or half as many if gradients are in single precision
and parameters in half precision. So gathers are the last half or the last third of the bytes of
a step, or less if gradients are reduced in every micro-batch, and they begin after a silence: the
update.

A job that shards its parameters gathers those of its first layers as soon as a step begins, so that
is seen. The update that ends a step leaves no traffic. It lasts until the next step or an
evaluation begins, unless that takes much longer than usual, or than the passes: then there is a
pause. If evaluations follow some steps, they show how long it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import EQUAL, MOSTLY, QUARTER
from llmprism.methods.prism.phases.moments import MISSING, moments_of, period_of, repaired
from llmprism.methods.prism.phases.phases import GATHERED, Phases, moved
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.parted_gathers import FASTEST_NS
from llmprism.methods.prism.timeline.pauses import PAUSE
from llmprism.methods.prism.timeline.timeline import Ranks, filled, of_no_step, relative
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, before_in_groups, order_in_groups
from llmprism.numerics.missing import finite_median


@dataclass(frozen=True)
class _Cells:
    """Data-parallel records of one class, by connection and step, in order of time.

    Attributes
    ----------
    at : index into the class's records.
    step, cell : step of each, and number of its connection and step.
    before, size : bytes of the cell before each record, and its own, as a share of a usual step.
    rest_ns : silence before each record in its cell, 0 for what is shorter than any update.
    """

    at: Ints
    step: Codes
    cell: Ints
    before: Floats
    size: Floats
    rest_ns: Ints

    def rests(self, share: float) -> tuple[Ints, Floats]:
        """The longest silence before the last ``share`` of each cell [ns], 0 for none.

        And how far these are from where ``share`` puts them. Without the last step.
        """
        whole, off = self.step != self.step.max(initial=0), np.abs(self.before + share - 1)
        near = whole & (off <= EQUAL)
        held = np.bincount(self.cell[whole], minlength=int(self.cell.max(initial=-1)) + 1) > 0
        longest = np.zeros(held.size, np.int64)
        np.maximum.at(longest, self.cell[near], self.rest_ns[near])
        return longest[held], off[near & (self.rest_ns == longest[self.cell])]

    def ends_without(self, share: float, count: int) -> Bools:
        """Whether each connection has all but that share in the last step."""
        last = self.step == count - 1
        volume = np.bincount(self.cell[last], self.size[last])
        lacks: Bools = np.abs(volume[volume > 0] + share - 1) <= EQUAL
        return lacks


def with_late_gathers(
    flows: FlowTable, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Phases:
    """Count gathers of the next step into that step; unchanged if there are none."""
    parts = phases.endpoints.size * max(pipelines.micro_batches, 1)
    own = {
        i: _cells(connections, one, phases.count, parts)
        for i, one in enumerate(phases.classes)
        if one.kind == "dp"
    }
    share = _share([*own.values()], phases.count, _left(phases, pipelines)) if own else None
    if share is None:
        return phases
    classes, gathers, rest = list(phases.classes), [], []
    for i, cells in own.items():
        gathered = np.zeros(classes[i].step.size, np.bool_)
        gathered[cells.at] = cells.before + cells.size / 2 > 1 - share
        after = classes[i].step + gathered
        classes[i] = replace(classes[i], step=np.where(after < phases.count, after, -1))
        gathers.append(replace(classes[i], step=np.where(gathered, classes[i].step, -1)))
        rest.append(replace(classes[i], step=np.where(gathered, -1, classes[i].step)))
    gather, other = (
        moments_of(flows, moved(part, "dp"), phases.endpoints, phases.count)
        for part in (gathers, rest)
    )
    dp = replace(other, end_ns=np.maximum(gather.end_ns, other.end_ns))
    moments = phases.moments | {"dp": dp}
    moments["dp"] = repaired(dp, phases.dp_group, period_of(moments))
    return replace(phases, classes=tuple(classes), moments=moments, gathers=gather)


def _cells(connections: Connections, one: KindOf, count: int, parts: int) -> _Cells:
    """Records of one class, whose update is made in ``parts`` at most."""
    known, cell = one.cells(connections, count)
    order = order_in_groups(cell, one.traffic.start_ns[known])
    known, cell = known[order], cell[order]
    size = one.traffic.size[known].astype(np.float64)
    volume = np.bincount(cell, size, one.connections.size * count)
    usual = np.maximum(1.0, np.median(volume.reshape(-1, count), axis=1))
    before = before_in_groups(cell, size)
    rest = np.zeros(known.size, np.int64)
    rest[1:] = one.traffic.start_ns[known][1:] - one.traffic.end_ns[known][:-1]
    rest[1:][cell[1:] != cell[:-1]] = 0
    rest[rest < FASTEST_NS / 2 * float(np.median(usual)) / parts] = 0  # gradients are half or more
    usual = usual[cell // count]
    return _Cells(known, one.step[known], cell, before / usual, size / usual, rest)


def _share(own: Sequence[_Cells], count: int, left: Floats) -> float | None:
    """Share of gathers of the next step in the bytes of a step; None if there are none.

    A silence parts them from the gradients; of several shares that it fits, the nearest one is
    right. ``left`` shows whether they reach into the next step. If all end well before it, those
    that the last step lacks were not recorded.
    """
    found: list[tuple[float, float, float]] = []
    for share in GATHERED:
        rests = [one.rests(share) for one in own]
        rest, off = (np.concatenate([*parts, np.empty(0)]) for parts in zip(*rests, strict=True))
        if rest.size and (rest > 0).mean() >= MOSTLY:
            found.append((float(np.median(rest)), -float(np.median(off)), share))
    late, soon = (
        left.size > 0 and (sign * (left - 1) > QUARTER).mean() >= MOSTLY for sign in (-1, 1)
    )
    for *_, share in sorted(found, reverse=True):
        lacks = np.concatenate([one.ends_without(share, count) for one in own])
        if not soon and lacks.size and lacks.mean() >= MOSTLY:
            return share
    return max(found)[-1] if found and late else None


def _left(phases: Phases, pipelines: Pipelines) -> Floats:
    """Time from a step's data-parallel traffic to the next step's first activation.

    In forward passes, for each rank of the first stage and each step; empty without a pipeline.
    Infinite where the activation leaves at once: a first chunk without layers waits for gathers.
    """
    if pipelines.length == 1 or not pipelines.forward_ns > 0:
        return np.empty(0)
    first = pipelines.stage == 0
    end = phases.moments["dp"].end_ns[first, :-1]
    sent = pipelines.first_sent[first, 1:]
    known = (end != MISSING) & np.isfinite(sent)
    between: Floats = (sent[known] - (end[known] - pipelines.origin_ns)) / pipelines.forward_ns
    return np.where((between >= 0) & (between < EQUAL), np.inf, between)


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
