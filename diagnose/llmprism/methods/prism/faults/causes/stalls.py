"""NICs that stop now and then: messages that were under way stall until they go on.

A message of a pipeline that alone fills a record takes as long as its bytes need; it waits for
nobody. If it takes many times as long, the network held it up. A slow part of the network holds up
all messages, competing transfers hold some up for a few times as long. A NIC that stops for a
moment holds up what is under way, for as long as the stop lasts, and messages before and after are
as fast as ever.

The NIC is an end of all messages that stall. Where two NICs are, since both exchange messages with
each other, the one through which gradients take longer in slow steps is likelier, and then the one
that receives most of what stalled. With TCP a message may as well wait for its receiver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.rates import rates_of
from llmprism.methods.prism.faults.suspects.cost import cost_at, with_neighbours
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.methods.prism.pipelines.last_stage import TCP
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.methods.prism.pipelines.middle_stages import SINGLE
from llmprism.numerics.arrays import Codes, Floats, Ints

SYMPTOM = "stalled_messages"
STALLED, LEAST = 12.0, 0.03  # usual lengths, and share of a step, that a stalled message exceeds
FEWEST = 3  # steps with a stall
ALL, SELDOM = 0.9, 0.34  # share of stalls at one NIC, and of messages of a connection that stall
HALF = 0.5
MORE = 1.5  # times as much time lost by gradients: that distinguishes two NICs
SURE, EITHER = 0.9, 0.6


@dataclass(frozen=True)
class _Stalls:
    """Messages that stalled: ends, step, and time beyond the usual [ns]; arrays of equal length."""

    src: Codes
    dst: Codes
    step: Codes
    lost_ns: Floats


def stalls(context: Context) -> Iterator[Suspect]:
    """Bring forward NICs at which messages of pipelines stall in several steps."""
    for job in context.jobs:
        found = _stalls(context, job)
        if found is not None and np.unique(found.step).size >= FEWEST:
            yield from _at_nic(context, job, found)


def _stalls(context: Context, job: JobView) -> _Stalls | None:
    """Messages of ``job`` that stalled; None if records do not show single messages."""
    flows, connections = context.flows, context.connections
    parts = [part for part in job.phases.classes if part.kind == "pp"]
    protocol = flows.optional.get("protocol")
    if not parts or not job.period_ns > 0:
        return None
    row = np.concatenate([part.one.traffic.row for part in parts])
    size = np.concatenate([part.one.traffic.size for part in parts])
    step = np.concatenate([part.step for part in parts])
    single = (step >= 0) & (size < SINGLE * usual_size(size))
    if not single.any() or (protocol is not None and (protocol[row] == TCP).any()):
        return None
    row, step = row[single], step[single]
    own = connections.of_row[row]
    length = flows.lengths_ns(row).astype(np.float64)
    usual = max(float(np.median(length)), job.tick_ns)
    late = (length > STALLED * usual) & (length - usual > LEAST * job.period_ns)
    often = np.bincount(own, late, len(connections)) / np.maximum(
        np.bincount(own, minlength=len(connections)), 1
    )
    late &= often[own] <= SELDOM
    return _Stalls(flows.src[row[late]], flows.dst[row[late]], step[late], (length - usual)[late])


def _at_nic(context: Context, job: JobView, found: _Stalls) -> Iterator[Suspect]:
    """The NIC at which nearly all messages stalled, if there is one."""
    ends = np.unique(np.concatenate((found.src, found.dst)))
    touching = {end: float(((found.src == end) | (found.dst == end)).mean()) for end in ends}
    near = [end for end in ends.tolist() if touching[end] >= ALL]
    if not near:
        return
    steps = _slow_steps(job, np.unique(found.step).astype(np.int64))
    ranked = _ranked(context, job, near, found, steps)
    lost = np.zeros(job.count)
    np.maximum.at(lost, found.step, found.lost_ns)
    share = float(lost[np.unique(found.step)].mean()) / job.period_ns
    names = [context.topology.addresses[end] for end in ranked]
    yield Suspect(
        job, "network", SYMPTOM, "flapping_nic", "address", names[0],
        int(steps[0]), int(steps[-1]), min(share, 1.0), SURE if len(near) == 1 else EITHER,
        {
            "one_of": names,
            "or_causes": ["slow_link"],
            "stalled_messages": int(found.step.size),
            "longest_stall_ns": round(float(found.lost_ns.max())),
            "steps": steps.tolist(),
        },
        cost_at(job, steps),
        share,
    )  # fmt: skip


def _slow_steps(job: JobView, steps: Ints) -> Ints:
    """``steps``, and those from the first to the last one that are longer by half as much.

    Gradients stall, too, in steps in which no message was under way. If most steps in between are
    slow, all of them count.
    """
    steps = with_neighbours(job, steps)
    cost = cost_at(job, steps)
    bar = cost.normal_ns + HALF * (cost.slow_ns - cost.normal_ns)
    between = np.arange(steps[0], steps[-1] + 1)
    slow: Ints = np.union1d(steps, between[job.between_ends_ns[between] > bar])
    return between if slow.size > HALF * between.size else slow


def _ranked(
    context: Context, job: JobView, near: list[int], found: _Stalls, steps: Ints
) -> list[int]:
    """NICs, the likeliest first."""
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
    received = [int((found.dst == end).sum()) for end in near]
    most = max(lost)
    shown = [one * MORE >= most and most > 0 and max(lost) > MORE * min(lost) for one in lost]
    order = sorted(range(len(near)), key=lambda i: (not shown[i], -received[i], near[i]))
    return [near[i] for i in order]
