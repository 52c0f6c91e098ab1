"""Jobs: the components that take their steps together.

One job may appear as several components, because what joins them (tensor parallelism, and
hops of a ring inside a server) runs over NVLink and is never seen. Such components have
servers in common, and their steps end together: the time between the ends of their steps is
the same in every step. Components of different jobs drift against each other, even on the
same servers.

Before that, traffic that does not repeat is taken out: a connection that is idle in most steps
of its component, or moves another volume in each, is no training traffic (storage, logs, bulk
copies). Without it the component may fall into the jobs that it had joined. Minor connections
join components only if they repeat with the steps that the major ones show.

A restarted job opens new connections. Components that follow one another on the same
endpoints, with the same volume in a step, are one job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.classes import Component, components, find_components
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.stepping import Part, Stepping, find_steps
from llmprism.methods.prism.twins import with_twins
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

STEADY = 0.25  # minor traffic of a step differs from the median step by less
UNLIKE = 0.5  # volumes of training traffic in a step differ by less than this from the median
TOGETHER = 0.015  # ends of steps of one job keep their distance within this share of a step
DRIFT = 0.003  # ... and do not drift by more than this share of a step in each step
BOUND = 0.35  # ... or within this share of how much steps differ in length
LOOSE = 0.25  # ... or within this share of a step, if it is independent from step to step
MANY, INDEPENDENT = 6, 1.3  # steps and ratio from which it is taken to be
SAME_VOLUME = 0.05
UNFINISHED = 1  # steps at the end that only some parts of a job show
SURE = 0.9  # quality of a division that services do not reach
LITTLE = 0.001  # of the rate of the busiest part


@dataclass(frozen=True)
class Job:
    """Parts that belong together, in order of time.

    Attributes
    ----------
    endpoints : endpoint codes, sorted.
    epochs : parts of the job in time, one for each attempt.
    """

    endpoints: Codes
    epochs: tuple[tuple[Part, ...], ...]


def find_jobs(flows: FlowTable, topology: Topology, connections: Connections) -> list[Job]:
    """The jobs, in order of their first record."""
    parts = _training([part for part in _parts(flows, connections) if part.stepping.count])
    parts = with_twins(flows, connections, parts, topology.servers)
    label = _merged(parts, topology.servers)
    jobs = []
    for one in dict.fromkeys(label.tolist()):
        own = [part for part, mark in zip(parts, label, strict=True) if mark == one]
        ends = np.unique(np.concatenate([part.component.endpoints for part in own]))
        jobs.append(Job(ends, (tuple(own),)))
    jobs = sorted(_restarted(jobs), key=_opening)
    return _with_silent(jobs, topology, connections)


def _training(parts: list[Part]) -> list[Part]:
    """Without services: parts whose volumes hardly repeat, and that move little beside others."""
    rates = [_rate(part.component) for part in parts]
    least = LITTLE * max(rates, default=0.0)
    return [
        part
        for part, rate in zip(parts, rates, strict=True)
        if part.stepping.quality >= SURE or rate >= least
    ]


def _rate(component: Component) -> float:
    """Bytes that an endpoint moves in a nanosecond, on average."""
    traffic = [one.traffic for one in component.classes]
    begin = min(int(own.start_ns[0]) for own in traffic)
    end = max(int(own.end_ns.max()) for own in traffic)
    total = sum(one.bytes for one in component.classes)
    return total / max(end - begin, 1) / component.endpoints.size


def _with_silent(jobs: list[Job], topology: Topology, connections: Connections) -> list[Job]:
    """Add NICs without training traffic, where the rest of the cluster says whose they are.

    Two cases, both on servers that one job has to itself. *A leaf without any record*, while
    every other leaf has some: it does not export, and its NICs belong with their servers.
    *Ranks behind others*: hops inside a server are not seen. If the job shares another of its
    servers with a second job, servers were filled one after the other, so none has idle GPUs;
    believed only if the job is seen through the same NICs of all servers it has to itself.
    """
    servers = topology.servers
    seen = np.zeros(servers.size, np.bool_)
    seen[connections.src] = seen[connections.dst] = True
    mute = _mute_leaf(topology, seen)
    employed = np.zeros(servers.size, np.bool_)
    for job in jobs:
        employed[job.endpoints] = True
    users: dict[int, set[int]] = {}
    for i, job in enumerate(jobs):
        for server in np.unique(servers[job.endpoints]).tolist():
            users.setdefault(server, set()).add(i)
    grown = []
    for job in jobs:
        homes = np.unique(servers[job.endpoints]).tolist()
        alone = [server for server in homes if len(users[server]) == 1]
        unseen = np.isin(servers, alone) & ~employed
        if len(alone) == len(homes) or not _alike(topology, job.endpoints, alone):
            unseen &= mute & ~seen
        ends = np.union1d(job.endpoints, np.flatnonzero(unseen)).astype(np.int32)
        grown.append(Job(ends, job.epochs))
    return grown


def _mute_leaf(topology: Topology, seen: Bools) -> Bools:
    """Endpoints at the only leaf of which no endpoint was ever seen."""
    leaves = np.array([end.switch or "" for end in topology.endpoints])
    silent = [leaf for leaf in np.unique(leaves) if not seen[leaves == leaf].any()]
    chosen: Bools = np.isin(leaves, silent) & (len(silent) == 1)
    return chosen


def _alike(topology: Topology, ends: Codes, alone: list[int]) -> bool:
    """Whether ``ends`` has the same NICs in each of the servers ``alone``."""
    nics: dict[int, set[int | None]] = {server: set() for server in alone}
    for end in ends.tolist():
        server = int(topology.servers[end])
        if server in nics:
            nics[server].add(topology.endpoints[end].nic)
    return bool(alone) and all(own == nics[alone[0]] for own in nics.values())


def _parts(flows: FlowTable, connections: Connections) -> list[Part]:
    """Components with their steps, without traffic that does not repeat."""
    major = connections.carries & ~connections.minor
    parts = _settled(flows, connections, major, {})
    minor = np.flatnonzero(connections.carries & connections.minor)
    kept = minor[_in_time(flows, connections, parts, minor)]
    if kept.size == 0:
        return parts
    known = {_connections_of(part.component): part for part in parts}
    use = np.zeros(len(connections), np.bool_)
    use[np.concatenate([*(list(own) for own in known), kept])] = True
    return _settled(flows, connections, use, known)


def _settled(
    flows: FlowTable,
    connections: Connections,
    use: Bools,
    known: Mapping[frozenset[int], Part],
) -> list[Part]:
    """Components of the connections in ``use``, without those that do not repeat.

    ``known`` has parts by their connections: their steps need not be found again.
    """
    settled: list[Part] = []
    pending = find_components(flows, connections, use)
    while pending:
        again = np.zeros(len(connections), np.bool_)
        for component in pending:
            part = known.get(_connections_of(component))
            if part is not None:
                settled.append(part)
                continue
            stepping = find_steps(component)
            odd = _irregular(connections, component, stepping)
            if stepping.count == 0 or odd.size == 0:
                settled.append(Part(component, stepping))
                continue
            for one in component.classes:
                again[one.connections] = True
            again[odd] = False
        pending = find_components(flows, connections, again) if again.any() else []
    return settled


def _connections_of(component: Component) -> frozenset[int]:
    return frozenset(np.concatenate([one.connections for one in component.classes]).tolist())


def _in_time(
    flows: FlowTable, connections: Connections, parts: Sequence[Part], minor: Ints
) -> Bools:
    """Which ``minor`` connections move the same in every step of the parts at their ends."""
    of_end = np.full(len(flows.addresses), -1)
    for i, part in enumerate(parts):
        if part.stepping.count:
            of_end[part.component.endpoints] = i
    kept = np.zeros(minor.size, np.bool_)
    for i, one in enumerate(minor.tolist()):
        touched = {int(of_end[connections.src[one]]), int(of_end[connections.dst[one]])} - {-1}
        rows = connections.by.rows(one)
        kept[i] = bool(touched) and all(
            _repeats(flows.start_ns[rows], connections.size[rows], parts[part].stepping)
            for part in touched
        )
    return kept


def _repeats(start_ns: Ints, size: Ints, stepping: Stepping) -> bool:
    """Whether as many bytes move between any two ends of steps."""
    borders = stepping.end_ns
    place = np.searchsorted(borders, start_ns)
    inside = (place > 0) & (place < borders.size)
    volume = np.bincount(place[inside] - 1, size[inside], borders.size - 1)
    median = float(np.median(volume))
    return median > 0 and float(np.median(np.abs(volume - median))) <= STEADY * median


def _irregular(connections: Connections, component: Component, stepping: Stepping) -> Ints:
    """Connections that are idle in most steps, or move a different volume in each."""
    odd = []
    for one, step in zip(component.classes, stepping.step_of, strict=True):
        if stepping.count == 0:
            continue
        known, cell = one.cells(connections, step, stepping.count)
        shape = (one.connections.size, stepping.count)
        volume = np.bincount(cell, one.traffic.size[known], shape[0] * shape[1]).reshape(shape)
        median = np.median(volume, axis=1)
        away = np.median(np.abs(volume - median[:, None]), axis=1)
        unlike = (away > UNLIKE * median) & (stepping.quality > 0)
        odd.append(one.connections[(median == 0) | unlike])
    return np.concatenate(odd) if odd else np.empty(0, np.int64)


def _merged(parts: Sequence[Part], servers: Codes) -> Codes:
    """Label parts that share a server and take their steps together."""
    src, dst = [], []
    homes = [set(servers[part.component.endpoints].tolist()) for part in parts]
    for i in range(len(parts)):
        for j in range(i):
            if homes[i] & homes[j] and _in_step(parts[i].stepping, parts[j].stepping):
                src += [i, j]
                dst += [j, i]
    return components(len(parts), np.array(src, np.int32), np.array(dst, np.int32))


def _in_step(one: Stepping, other: Stepping) -> bool:
    """Whether the begins of steps, or their ends, keep their distance.

    Replicas whose sequences differ in length begin a step together and end it apart. A step that
    was never finished may count in one part only.
    """
    if abs(one.count - other.count) > UNFINISHED:
        return False
    both = min(one.count, other.count)
    lengths = np.diff(one.end_ns[:both])
    return any(
        _keep_distance((ours[:both] - theirs[:both]).astype(np.float64), lengths)
        for ours, theirs in ((one.end_ns, other.end_ns), (one.start_ns, other.start_ns))
    )


def _keep_distance(between: Floats, lengths: Ints) -> bool:
    """Whether ``between`` [ns], one a step, stays the same; ``lengths`` are those of steps.

    It may also vary, if it returns to its mean in every step: what one step adds, the next one
    takes away. The times of jobs that do not wait for each other wander off instead.
    """
    period, varies = float(np.median(lengths)), float(np.std(lengths))
    allowed = max(TOGETHER * period, BOUND * min(varies, period / 10))
    away = float(np.median(np.abs(between - np.median(between))))
    count = between.size
    drift = np.polyfit(np.arange(count), between, 1)[0] if count > 3 else 0.0
    near = float(np.median(np.abs(between))) < period
    steady = away < allowed and abs(drift) < max(DRIFT * period, allowed / count)
    return near and (steady or (away < LOOSE * period and _returns(between)))


def _returns(values: Floats) -> bool:
    """Whether successive values are independent: the ratio of J. von Neumann (1941) is 2 then.

    For a sum of independent values it is near 0.
    """
    if values.size < MANY:
        return False
    return float(np.mean(np.diff(values) ** 2)) > INDEPENDENT * float(np.var(values))


def _restarted(jobs: list[Job]) -> list[Job]:
    """Join jobs that follow one another on the same endpoints and move the same volumes."""
    joined: list[Job] = []
    for job in sorted(jobs, key=_begin):
        before = next((i for i, old in enumerate(joined) if _continues(old, job)), None)
        if before is None:
            joined.append(job)
        else:
            joined[before] = Job(job.endpoints, joined[before].epochs + job.epochs)
    return joined


def _continues(old: Job, new: Job) -> bool:
    if not np.array_equal(old.endpoints, new.endpoints) or _end(old) > _begin(new):
        return False
    volumes = [_volumes(job.epochs[-1]) for job in (old, new)]
    if volumes[0].size != volumes[1].size:
        return False
    return bool(np.all(np.abs(np.log(volumes[0] / volumes[1])) < SAME_VOLUME))


def _volumes(parts: Sequence[Part]) -> Ints:
    """Median bytes a step of each class, sorted."""
    volumes = [
        np.median(np.bincount(step[step >= 0], one.traffic.size[step >= 0]))
        for part in parts
        for one, step in zip(part.component.classes, part.stepping.step_of, strict=True)
    ]
    return np.sort(np.array(volumes))


def _opening(job: Job) -> list[int]:
    """When the parts of a job begin: an order of jobs that no name enters."""
    starts = [c.traffic.start_ns for p in job.epochs[0] for c in p.component.classes]
    return sorted(int(start[0]) for start in starts)


def _begin(job: Job) -> int:
    return min(int(c.traffic.start_ns[0]) for p in job.epochs[0] for c in p.component.classes)


def _end(job: Job) -> int:
    return max(int(c.traffic.end_ns.max()) for p in job.epochs[-1] for c in p.component.classes)
