"""Jobs: the components that take their steps together.

One job may appear as several components, because what joins them (tensor parallelism, and
hops of a ring inside a server) runs over NVLink and is never seen. Which components belong
together shows in time (:mod:`~llmprism.methods.prism.jobs.together`).

Before that, traffic that does not repeat is taken out: a connection that is idle in most steps
of its component, or moves another volume in each, is no training traffic (storage, logs, bulk
copies). Without it the component may fall into the jobs that it had joined. Minor connections
join components only if they repeat with the steps that the major ones show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.classes import Component, find_components, united
from llmprism.methods.prism.jobs.attempts import Job, restarted
from llmprism.methods.prism.jobs.repetition import (
    answered,
    are_gradients,
    exchanged,
    irregular,
    repeats,
    returned,
)
from llmprism.methods.prism.jobs.same_rings import with_same_rings
from llmprism.methods.prism.jobs.short_attempts import with_short_attempts
from llmprism.methods.prism.jobs.together import together
from llmprism.methods.prism.jobs.two_steps import two_steps
from llmprism.methods.prism.parameters import EQUAL, QUARTER, SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part, find_steps
from llmprism.numerics.arrays import INTS, Bools, Codes, Ints
from llmprism.numerics.graph import components
from prism_common.threads import in_threads

LITTLE = 0.001  # of the rate of the busiest part
CHANCE, SELDOM = 5, 0.02  # steps that services may seem to take by chance, and their rate

Known = Mapping[frozenset[int], Part]


def find_jobs(
    flows: FlowTable, topology: Topology, connections: Connections, parts: list[Part], given: Ints
) -> list[Job]:
    """The jobs of the ``parts``, in order of their first record; ``given`` by endpoint, or -1."""
    stepping = _training([part for part in parts if part.stepping.count])
    idle = [part for part in parts if not part.stepping.count]
    label = together(connections, stepping, topology.servers, unknown=topology.servers_unknown)
    listed = np.array([given[part.component.endpoints].max() for part in stepping], np.int64)
    label = _as_listed(stepping, label, listed) if (listed >= 0).any() else label
    marked = dict.fromkeys(label.tolist())
    labelled = [
        [part for part, mark in zip(stepping, label, strict=True) if mark == one] for one in marked
    ]
    labelled = with_same_rings(labelled, idle, topology.servers)
    jobs = []
    for own in labelled:
        agreeing = _agreeing(flows, connections, own)
        if all(part.stepping.count for part in agreeing):
            jobs.append(job_of(own, agreeing))
    jobs = with_short_attempts(flows, connections, restarted(jobs, connections))
    return sorted(jobs, key=_opening)


def _as_listed(parts: Sequence[Part], label: Codes, listed: Ints) -> Codes:
    """Labels of parts that are together: those of a given job that take steps at the same time.

    Its parts before or after them are attempts of it. Parts of different given jobs are apart.
    ``listed`` has the given job of each part, or -1.
    """
    steps = [part.stepping for part in parts]
    begin, end = np.array([(one.start_ns[0], one.end_ns[-1]) for one in steps]).T
    joined = label[:, None] == label
    at_once = (begin[:, None] <= end) & (begin <= end[:, None])
    joined |= (listed >= 0) & at_once
    first, second = np.nonzero(joined & (listed[:, None] == listed))
    return components(first.astype(np.int32), second.astype(np.int32), label.size)


def job_of(parts: Sequence[Part], stepping: Sequence[Part]) -> Job:
    """The job whose members are the endpoints of ``parts``; its steps are those of ``stepping``."""
    ends = np.unique(np.concatenate([part.component.endpoints for part in parts]))
    return Job(ends, (tuple(stepping),))


def _training(parts: list[Part]) -> list[Part]:
    """Without services: parts whose volumes hardly repeat, and that move little beside others.

    A few steps may also be chance, as many ways to cut the records are tried.
    """
    rates = [_rate(part.component) for part in parts]
    busiest = max(rates, default=0.0)
    return [
        part
        for part, rate in zip(parts, rates, strict=True)
        if part.stepping.quality >= SURE
        or rate >= (SELDOM if part.stepping.count <= CHANCE else LITTLE) * busiest
    ]


def _rate(component: Component) -> float:
    """Bytes that an endpoint moves in a nanosecond, on average."""
    traffic = [one.traffic for one in component.classes]
    begin = min(int(own.start_ns[0]) for own in traffic)
    end = max(int(own.end_ns.max()) for own in traffic)
    total = sum(one.bytes for one in component.classes)
    return total / max(end - begin, 1) / component.endpoints.size


def find_parts(flows: FlowTable, connections: Connections) -> list[Part]:
    """Components with their steps, without traffic that does not repeat."""
    little = connections.minor | exchanged(connections)
    to_unseen = np.zeros_like(little) if connections.to_unseen is None else connections.to_unseen
    parts = _settled(flows, connections, connections.carries & ~(little | to_unseen), {})
    known = {_connections_of(part.component): part for part in parts}
    own = np.array([one for each in known for one in each], np.int64)
    minor = np.flatnonzero(connections.carries & (little | to_unseen.any()))
    minor = np.setdiff1d(minor, own)
    kept = minor[_in_time(flows, connections, parts, minor)]
    if to_unseen.any():
        kept = np.union1d(kept, _apart(connections, parts, minor[~little[minor]]))
    if kept.size == 0:
        return parts
    use = np.zeros(len(connections), np.bool_)
    use[np.concatenate((own, kept))] = True
    return _settled(flows, connections, use, known)


def _apart(connections: Connections, parts: Sequence[Part], among: Ints) -> Ints:
    """Connections of which neither end is in one of the ``parts``: those of a job of their own."""
    ends = [np.empty(0, np.int32), *(part.component.endpoints for part in parts)]
    inside = np.isin((connections.src[among], connections.dst[among]), np.concatenate(ends))
    apart: Ints = among[~inside.any(axis=0)]
    return apart


def _settled(flows: FlowTable, connections: Connections, use: Bools, known: Known) -> list[Part]:
    """Components of the connections in ``use``, without those that do not repeat.

    ``known`` has parts by their connections: their steps need not be found again.
    """
    settled: list[Part] = []
    pending = find_components(flows, connections, use)
    while pending:
        again = np.zeros(len(connections), np.bool_)
        for part, odd in in_threads(
            partial(_with_steps, connections, known, len(flows.addresses)), pending
        ):
            if odd.size == 0:
                settled.append(part)
                continue
            for one in part.component.classes:
                again[one.connections] = True
            again[odd] = False
        pending = find_components(flows, connections, again) if again.any() else []
    return settled


def _with_steps(
    connections: Connections, known: Known, nodes: int, component: Component
) -> tuple[Part, Ints]:
    """``component`` with its steps, and its connections that do not repeat in them.

    If those are gradients, there are no steps. Two steps of a pipeline leave none out.
    """
    if (before := known.get(_connections_of(component))) is not None:
        return before, INTS
    if (two := two_steps(connections, component, nodes)) is not None:
        return Part(component, two), INTS
    stepping = find_steps(component)
    odd = irregular(connections, component, stepping)
    if stepping.count == 0 or odd.size == 0:
        return Part(component, stepping), INTS
    if are_gradients(connections, component, stepping, odd):
        return Part(component, replace(stepping, count=0)), INTS
    return Part(component, stepping), odd


def _connections_of(component: Component) -> frozenset[int]:
    return frozenset(np.concatenate([one.connections for one in component.classes]).tolist())


def _in_time(
    flows: FlowTable, connections: Connections, parts: Sequence[Part], minor: Ints
) -> Bools:
    """Which ``minor`` connections move the same in every step of the parts at their ends.

    Attempts of a job that is restarted are parts with the same ends, one after the other. Where
    records are exact, so that a part moves as many bytes in every step, other traffic of its job
    does so, too, and flows between any two servers rarely do. Activations vary with the lengths of
    sequences, but gradients of as many bytes return.
    """
    back = returned(connections, minor)
    stepping = [part for part in parts if part.stepping.count]
    steady = {id(part): _steady(connections, part) for part in stepping}
    of_end: dict[int, list[Part]] = {}
    for part in stepping:
        for end in part.component.endpoints.tolist():
            of_end.setdefault(end, []).append(part)
    kept = np.zeros(minor.size, np.bool_)
    for i, one in enumerate(minor.tolist()):
        touched = _touched(connections, of_end, one)
        rows = connections.by.rows(one)
        kept[i] = bool(touched) and all(
            repeats(
                flows.start_ns[rows],
                connections.size[rows],
                part.stepping,
                QUARTER if back[i] else steady[id(part)],
                connections.sample_bytes,
            )
            for part in touched
        )
    return kept | answered(connections, minor, minor[kept])


def _touched(
    connections: Connections, of_end: Mapping[int, Sequence[Part]], one: int
) -> list[Part]:
    """The parts at the ends of the connection ``one`` that take steps while it moves anything."""
    begin, end = int(connections.first_ns[one]), int(connections.last_ns[one])
    ends = [connections.src[one]]
    if connections.to_unseen is None or not connections.to_unseen[one]:
        ends.append(connections.dst[one])
    found = {
        id(part): part
        for side in ends
        for part in of_end.get(int(side), [])
        if part.stepping.start_ns[0] <= end and begin <= part.stepping.end_ns[-1]
    }
    return [*found.values()]


def _steady(connections: Connections, part: Part) -> float:
    """By what share minor traffic of a step may differ from the median step."""
    stepping = part.stepping
    volume = part.component.classes[stepping.reference].volumes(
        connections, stepping.step_of[stepping.reference], stepping.count
    )
    median = np.median(volume, axis=1)
    away = np.median(np.abs(volume - median[:, None]), axis=1)
    return EQUAL if (away <= EQUAL * median).all() else QUARTER


def _agreeing(
    flows: FlowTable, connections: Connections, parts: Sequence[Part]
) -> tuple[Part, ...]:
    """The parts of a job; divided into steps together if their numbers of steps differ."""
    if len({part.stepping.count for part in parts}) == 1:
        return tuple(parts)
    both = united([part.component for part in parts], flows, connections)
    stepping = find_steps(both)
    return (Part(both, stepping),) if stepping.count else tuple(parts)


def _opening(job: Job) -> list[int]:
    """When the parts of a job begin: an order of jobs that no name enters."""
    starts = [c.traffic.start_ns for p in job.epochs[0] for c in p.component.classes]
    return sorted(int(start[0]) for start in starts)
