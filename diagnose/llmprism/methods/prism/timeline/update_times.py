"""The update of parameters after which nothing is gathered in the same step of a pipeline.

It follows the last gradients and sends nothing, as the work of hosts does. But memory bounds
its time: Adam reads a gradient, reads and writes a parameter and two moments in single precision,
and writes the parameter once more in half precision. With gradients in single precision, as usual,
that is 30 bytes for 4 bytes of gradients, which flows show. So if no more time passes until the
next step begins than an update takes with slow memory, all of it is the update; stages with more
gradients take longer in proportion. If more time passes, hosts work as well, and the update has
the usual time for its bytes.

Every replica updates all parameters, or an equal part of them if states are sharded. Then
parameters are gathered, with half the bytes of gradients: before the step ends, so that there is
nothing to add, or in the next step. Sharded gradients are reduced in every micro-batch, so their
traffic begins before the last gradient comes. Two messages of the same bytes are a reduction and a
gather only if the first one begins after the passes. Records that bridge such silences show nothing
of this kind, so they say nothing about updates.

Where replicas share a server, their gradients do not show. Then the time of a forward pass does: a
rank computes 2 FLOP for each parameter and token, so 2,048 to 8,192 tokens at 150 to 400 TFLOP/s
take 10 to 110 ps for a parameter. NVLink reduces it in 18 to 27 ps, at 300 to 450 GB/s, and memory
updates it in 9 to 19 ps. So both together take about half a pass, and two at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.classes.sizes import EXACT, cells, distinct
from llmprism.methods.prism.parameters import FEWEST, HALF, QUARTER
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.parted_gathers import MOVED, gathers_after_updates
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Bools, Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median, nanmedian

LONGEST_NS = MOVED / 1555  # of a byte: 1,555 GB/s, NVIDIA A100 with 40 GB (data sheet)
USUAL_NS = MOVED / 2613  # ... the mean of A100 with 80 GB (2,039 GB/s) and H100 (3,350 GB/s)
PAIR = 2  # messages: too few for a pattern of sizes
MOST_PASSES = 2.0  # forward passes: longest reduction and update inside servers
USUAL_PASSES, WITHOUT = 0.5, 0.2  # usual ones; without replicas there is no reduction


def with_updates(
    connections: Connections, phases: Phases, pipelines: Pipelines, ranks: Ranks, replicas: int
) -> Ranks:
    """``ranks`` that end their steps after the update, if nothing is gathered after it."""
    own = [one for one in phases.classes if one.kind == "dp"]
    countable = pipelines.micro_batches > 0 and not connections.sample_bytes
    if pipelines.length < 2 or not countable:
        return ranks
    if not own:
        return _inside_servers(phases, pipelines, ranks, replicas)
    bytes_ = _sent(connections, own, phases, pipelines.stage)
    bytes_ *= _updated(connections, own, phases, pipelines, replicas)
    shows = pipelines.stage == 0
    pace = finite_median(_between(phases, ranks)[shows] / bytes_[shows])
    if not pace > 0 or not _are_apart(connections, phases, QUARTER * pace * finite_median(bytes_)):
        return ranks
    alone = pace <= LONGEST_NS
    update = np.nan_to_num(bytes_ * (pace if alone else USUAL_NS))
    shown = float(np.median(update[shows]))
    return _ended(ranks, update, shown, phases.first_of_epoch, alone=alone)


def _inside_servers(phases: Phases, pipelines: Pipelines, ranks: Ranks, replicas: int) -> Ranks:
    """``ranks`` that end their steps after a reduction and an update that nothing shows."""
    usual_ns = finite_median(_between(phases, ranks)[pipelines.stage == 0])
    pass_ns = pipelines.forward_ns if pipelines.forward_ns > 0 else pipelines.lead_ns
    if not (usual_ns > 0 and pass_ns > 0):
        return ranks
    alone = usual_ns <= MOST_PASSES * pass_ns
    pass_ns *= max(pipelines.chunks, 1)  # of all parts of the model that the stage holds
    passes = WITHOUT if replicas == 1 else USUAL_PASSES
    own_ns = usual_ns if alone else passes * pass_ns
    update = np.full(phases.endpoints.size, own_ns)
    return _ended(ranks, update, own_ns, phases.first_of_epoch, alone=alone)


def _are_apart(connections: Connections, phases: Phases, most_ns: float) -> bool:
    """Whether records part what a silence of ``most_ns`` parts, and so show gathers after updates.

    A connection then has records that follow each other sooner, at least as many as steps.
    """
    sooner = 0
    for one in phases.classes:
        traffic = one.traffic
        lane = connections.of_row[traffic.row]
        order = order_in_groups(lane, traffic.start_ns)
        silence = traffic.start_ns[order][1:] - traffic.end_ns[order][:-1]
        sooner += int(((np.diff(lane[order]) == 0) & (silence <= most_ns)).sum())
    return sooner >= phases.count


def _between(phases: Phases, ranks: Ranks) -> Floats:
    """Usual time from the end of a step to the next one [ns], shape (endpoints,); NaN for none."""
    start = ranks.start
    within = np.setdiff1d(np.arange(1, start.shape[1]), phases.first_of_epoch)
    return nanmedian(start[:, within] - ranks.end[:, within - 1], axis=1)


def _ended(ranks: Ranks, update: Floats, shown: float, firsts: Ints, *, alone: bool) -> Ranks:
    """Ends after the ``update`` of each endpoint, and starts as long after them as before.

    ``shown`` is the update that the starts of all endpoints still contain [ns]. If the update is
    ``alone``, a step begins when the one before ends, unless the time between exceeds the update:
    without host work, a forward pass that is longer or shorter than usual makes all the difference.
    """
    start = ranks.start.copy()
    later = np.setdiff1d(np.arange(start.shape[1]), firsts)
    end = ranks.end + update[:, None]
    before = end[:, later - 1]
    begun = np.fmax(start[:, later] + (update - shown)[:, None], before)
    if alone:
        begun = np.where(np.fmin(begun, end[:, later]) - before <= update[:, None], before, begun)
    start[:, later] = begun
    return replace(ranks, start=np.fmin(start, end), end=end)


def _sent(connections: Connections, own: Sequence[KindOf], phases: Phases, stage: Ints) -> Floats:
    """Data-parallel bytes that a rank of each endpoint's stage sends in a step; NaN for none.

    A rank whose ring leaves its server by another NIC sends nothing, so the largest sum of a stage
    counts.
    """
    sent = np.zeros(phases.endpoints.size)
    for one in own:
        known = one.step >= 0
        row, size = one.traffic.row[known], one.traffic.size[known]
        sender = np.searchsorted(phases.endpoints, connections.src[connections.of_row[row]])
        sent += np.bincount(sender, size, sent.size) / phases.count
    bytes_ = np.full(sent.size, np.nan)
    for place in np.unique(stage[stage >= 0]).tolist():
        bytes_[stage == place] = sent[stage == place].max()
    return np.where(bytes_ > 0, bytes_, np.nan)


def _updated(
    connections: Connections, own: Sequence[KindOf], phases: Phases, pipelines: Pipelines,
    replicas: int,
) -> float:  # fmt: skip
    """Bytes of the gradients that a rank updates, over the bytes that it sends in a step.

    A ring of n members passes (n - 1) / n times the bytes on that it reduces or gathers. NaN if
    the update is followed by gathers, or nothing shows which part of the parameters it is for.
    """
    members = max(replicas, 2)
    if not _holds_all(connections, own, phases, pipelines, members):
        return np.nan
    return members / (2.0 * (members - 1)) * _rings(phases, members)


def _rings(phases: Phases, members: int) -> int:
    """Over how many rings the ``members`` of a data-parallel group divide their gradients.

    Members that share servers have as many of them.
    """
    seen = np.bincount(phases.dp_group[phases.dp_group >= 0])
    return max(1, members // int(np.median(seen[seen > 0])))


def _holds_all(
    connections: Connections, own: Sequence[KindOf], phases: Phases, pipelines: Pipelines,
    members: int,
) -> bool:  # fmt: skip
    """Whether each replica updates all parameters: nothing is gathered, or reduced early."""
    paired = not _begins_within(phases, pipelines)
    return not _reduces_early(phases, pipelines) and not any(
        _gathers(connections, one, phases.count, paired=paired)
        or gathers_after_updates(connections, one, phases, pipelines, members)
        for one in own
    )


def _reduces_early(phases: Phases, pipelines: Pipelines) -> bool:
    """Whether gradients of the first stage are reduced before its last backward pass can begin.

    If a stage holds several parts of the model, those of the later ones are, in any case.
    """
    first = pipelines.stage == 0
    return pipelines.chunks <= 1 and _precede(phases, pipelines, first, pipelines.last_got)


def _begins_within(phases: Phases, pipelines: Pipelines) -> bool:
    """Whether later stages reduce some gradients within a pass, before they send its result."""
    return _precede(phases, pipelines, pipelines.stage > 0, pipelines.last_sent)


def _precede(phases: Phases, pipelines: Pipelines, chosen: Bools, times: Floats) -> bool:
    """Whether data-parallel traffic of the ``chosen`` ranks begins before ``times`` in most steps.

    ``times`` are relative to the origin of ``pipelines`` [ns].
    """
    begun, limit = phases.moments["dp"].start_ns[chosen], times[chosen] + pipelines.origin_ns
    known = (begun != MISSING) & np.isfinite(limit)
    return bool(known.any() and (begun[known] < limit[known]).mean() > HALF)


def _gathers(connections: Connections, one: KindOf, count: int, *, paired: bool) -> bool:
    """Whether parameters are gathered after the gradients in many cells of a class.

    Two messages may be gradients and parameters only if they can be ``paired``.
    """
    found = []
    for start, end, size in cells(connections, one.one, one.step, count):
        if size.size == PAIR:
            found.append(paired and _is_pair(start, end, size))
        else:
            found.append(_doubled(*distinct(np.sort(size))) >= HALF)
    return bool(found) and sum(found) >= HALF * len(found)


def _doubled(value: Floats, often: Ints) -> float:
    """Share of the bytes in messages that are sent as often, or oftener, with twice their bytes.

    And in those. Records may hold several messages, so some have no double.
    """
    if often.sum() < FEWEST:
        return 0.0
    known = 0.0
    for size, times in zip(value.tolist(), often.tolist(), strict=True):
        double = np.abs(value - 2 * size) <= 2 * EXACT * size
        if double.any() and often[double].max() >= times:
            known += times * size + float(often[double].max()) * 2 * size
    return known / float(value @ often)


def _is_pair(start: Ints, end: Ints, size: Ints) -> bool:
    """Whether two messages are gradients and, after a silence, as many bytes or half of them."""
    before, after = np.argsort(start, kind="stable").tolist()
    ratio = size[before] / size[after]
    return bool(start[after] > end[before] and min(abs(ratio - 1), abs(ratio - 2)) <= EXACT * ratio)
