"""NICs that stop now and then: what is under way stalls until they go on.

A slow part of the network holds up all that crosses it, and competing transfers hold some up for
a few times as long. A NIC that stops for a moment holds up what is under way, for as long as the
stop lasts, and messages before and after are as fast as ever (:mod:`~.stalled_records`).

The NIC is an end of what stalls at each stop: of a message, or of a hop of a ring, all of which may
wait for one. Hops also stall for late ranks. So if no NIC is an end of all, messages alone may show
one. Two are where both exchange messages with each other. One that carries anything else meanwhile
has not stopped. Else the one through which gradients take longer in slow steps is likelier, and
then the one that receives most of what stalled.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.rates import rates_of
from llmprism.methods.prism.faults.measures.stalled_records import Stalls, stalled_records
from llmprism.methods.prism.faults.suspects.cost import cost_at, with_neighbours
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Ints

SYMPTOM = "stalled_messages"
FEWEST = 3  # steps with a stall
ALL = 0.9  # share of the time of stops, of their number, and of what they hold up at one NIC
HALF = 0.5
MORE = 1.5  # times as much time lost by gradients: that distinguishes two NICs
EXPLAINED = 0.3  # of what stalls take: by which the steps in which they are seen are longer
CHANCE = 1e-3  # that stops are at one place by chance: then they show a fault by themselves
PAIR = 2  # NICs that exchange messages
SURE, EITHER = 0.9, 0.6


def stalls(context: Context) -> Iterator[Suspect]:
    """Bring forward NICs at which records stall in several steps."""
    for job in context.jobs:
        found = stalled_records(context, job)
        yield from [*_at_nic(context, job, found)] or _at_nic(context, job, found.messages)


def _at_nic(context: Context, job: JobView, found: Stalls) -> Iterator[Suspect]:
    """The NIC at which nearly all records stalled, if there is one."""
    near = _near(context, found) if np.unique(found.step).size >= FEWEST else []
    if not near:
        return
    stalled = np.unique(found.step)
    lost = np.zeros(job.count)
    np.maximum.at(lost, found.step, found.lost_ns)
    share = float(lost[stalled].mean()) / job.period_ns
    hidden = cost_at(job, stalled).share < EXPLAINED * share
    if hidden and _chance(context, job, near, found) > CHANCE:
        return  # the longest ones of any steps are longer than the others
    steps = _slow_steps(job, stalled)
    active = [_active(context, found, end) for end in near]
    ranked = _ranked(context, job, near, active, found, steps)
    names = [context.topology.addresses[end] for end in ranked]
    one = sum(each < HALF for each in active) == 1
    yield Suspect(
        job, "network", SYMPTOM, "flapping_nic", "address", names[0],
        int(steps[0]), int(steps[-1]), min(share, 1.0),
        SURE if one else EITHER * PAIR / max(PAIR, len(near)),
        {
            "one_of": names,
            "or_causes": ["slow_link"],
            "messages_alone": bool(found.message.all()),
            "stalled_messages": int(found.step.size),
            "longest_stall_ns": round(float(found.lost_ns.max())),
            "steps": steps.tolist(),
        },
        cost_at(job, steps),
        share,
    )  # fmt: skip


def _chance(context: Context, job: JobView, near: list[int], found: Stalls) -> float:
    """Probability that as many stops are at the same NICs by chance: any record may be the longest.

    Other work may hide a stall, so that steps are hardly longer; but not where it is.
    """
    ends = job.phases.endpoints
    stops = int(_stops(context, found).max()) + 1
    return float(ends.size * min(1.0, PAIR * len(near) / ends.size) ** (ALL * stops))


def _near(context: Context, found: Stalls) -> list[int]:
    """The NICs at which the stops are, by the time they take; of those, where most time is lost.

    Half of all, or more: parts of collectives that wait for a late rank are all over the job. They
    wait a short time as often as a long one, so that stops elsewhere that are short say little.
    """
    src, dst = context.flows.src[found.row], context.flows.dst[found.row]
    stop = _stops(context, found)
    lasts_ns = np.zeros(int(stop.max()) + 1)
    np.maximum.at(lasts_ns, stop, found.lost_ns)
    held = {}
    for end in np.unique(np.concatenate((src, dst))).tolist():
        own = (src == end) | (dst == end)
        if lasts_ns[np.unique(stop[own])].sum() >= ALL * lasts_ns.sum():
            held[end] = float(found.lost_ns[own].sum())
    most = max([*held.values(), HALF * float(found.lost_ns.sum())])
    return [end for end, lost_ns in held.items() if lost_ns >= ALL * most]


def _stops(context: Context, found: Stalls) -> Ints:
    """Number of the stop that held up each record: those at the same time are held up by one."""
    order = np.argsort(context.flows.start_ns[found.row], kind="stable")
    row = found.row[order]
    until_ns = np.maximum.accumulate(context.flows.end_ns[row])
    number = np.zeros(row.size, np.int64)
    number[order[1:]] = np.cumsum(context.flows.start_ns[row[1:]] > until_ns[:-1])
    return number


def _active(context: Context, found: Stalls, end: int) -> float:
    """Share of the stalls at a NIC during which another record of it begins or ends.

    The stop is as long as the time that was lost, and somewhere within the record.
    """
    flows = context.flows
    own = np.flatnonzero((flows.src == end) | (flows.dst == end))
    own = own[~np.isin(own, found.row)]
    moments = np.sort(np.concatenate((flows.start_ns[own], flows.end_ns[own])))
    stalled = (flows.src[found.row] == end) | (flows.dst[found.row] == end)
    row = found.row[stalled]
    margin_ns = flows.lengths_ns(row) - found.lost_ns[stalled]
    first = np.searchsorted(moments, flows.start_ns[row] + margin_ns, "right")
    last = np.searchsorted(moments, flows.end_ns[row] - margin_ns, "left")
    return float((last > first).mean())


def _slow_steps(job: JobView, steps: Ints) -> Ints:
    """Of ``steps``, and those from the first to the last one, the ones longer by half as much.

    Gradients stall, too, in steps in which no message was under way. If most steps in between are
    slow, all of them count. What waits for a late rank may look like a stall that costs no time.
    """
    steps = with_neighbours(job, steps)
    cost = cost_at(job, steps)
    bar = cost.normal_ns + HALF * (cost.slow_ns - cost.normal_ns)
    between = np.arange(steps[0], steps[-1] + 1)
    slow = between[job.between_ends_ns[between] > bar]
    if not slow.size:
        return steps
    between = np.arange(slow[0], slow[-1] + 1)
    return between if slow.size > HALF * between.size else slow


def _ranked(
    context: Context,
    job: JobView,
    near: list[int],
    active: list[float],
    found: Stalls,
    steps: Ints,
) -> list[int]:
    """NICs, the likeliest first."""
    lost = _lost_by_gradients(context, job, near, steps)
    src, dst = context.flows.src[found.row], context.flows.dst[found.row]
    held = [float(found.lost_ns[(src == end) | (dst == end)].sum()) for end in near]
    received = [int((dst == end).sum()) for end in near]
    most = max(lost)
    shown = [one * MORE >= most and most > 0 and max(lost) > MORE * min(lost) for one in lost]
    order = sorted(
        range(len(near)),
        key=lambda i: (active[i] >= HALF, -held[i], not shown[i], -received[i], near[i]),
    )
    return [near[i] for i in order]


def _lost_by_gradients(context: Context, job: JobView, near: list[int], steps: Ints) -> list[float]:
    """What gradients through each NIC lost in ``steps``, as a share of a step."""
    rates = rates_of(context, job)
    lost = []
    for end in near:
        name = context.topology.addresses[end]
        own = [
            i
            for i, (kind, parts) in enumerate(zip(rates.kind, rates.crosses, strict=True))
            if kind == "dp" and name in parts
        ]
        lost.append(float(np.nansum(np.maximum(rates.lost[own][:, steps], 0.0))) if own else 0.0)
    return lost
