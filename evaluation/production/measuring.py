"""Diagnoses the hour, and compares what each rail alone shows.

All NICs of a server do the same job, so jobs that are found from the ports of one rail alone have
to agree with those of another one. This needs no labels, and the diagnosis of one rail has seen
nothing of another.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.production.zhejiang import read, topology_of
from llmprism.counters.curves import Curves
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose, link_bps
from llmprism.counters.jobs import disagreement, find_jobs
from llmprism.counters.readings import Readings
from llmprism.io.topology import Topology, parse_topology
from llmprism.numerics.arrays import Ints

NAIVE_SAME = 0.02
"""By which the bytes of two ports of a naive group differ at most."""


@dataclass(frozen=True)
class Hour:
    """What was measured.

    Attributes
    ----------
    result : the diagnosis of all ports.
    values : readings in both directions.
    rails : for each couple of rails: their numbers, couples of servers that are together on either,
        and on one of them only.
    naive : couples of servers that are together on either of two rails, and on one only, if ports
        are grouped by equal bytes.
    cpu_s, peak_bytes : of reading and diagnosing.
    """

    result: CounterDiagnosis
    topology: Topology
    values: int
    rails: Sequence[tuple[int, int, int, int]]
    naive: tuple[int, int]
    cpu_s: float
    peak_bytes: int


def measure(folder: Path) -> Hour:
    """Read and diagnose the traces below ``folder``.

    Raises
    ------
    UserError : they are not there.
    """
    began = time.process_time()
    topology = parse_topology(topology_of(folder), str(folder))
    return measured(read(folder), topology, began)


def measured(readings: Readings, topology: Topology, began_s: float) -> Hour:
    """Diagnose all ports, and each rail alone; ``began_s`` is the CPU time before reading."""
    result = diagnose(readings, topology)
    took_s = time.process_time() - began_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    by_rail = jobs_by_rail(result, topology)
    rails = [
        (first, second, *agreement(by_rail[first], by_rail[second]))
        for first, second in combinations(sorted(by_rail), 2)
    ]
    values = 2 * sum(port.time_ns.size for port in readings.ports)
    naive = [agreement(*pair) for pair in combinations(naive_by_rail(result, topology).values(), 2)]
    together, apart = (sum(counts) for counts in zip(*naive, strict=True))
    return Hour(result, topology, values, rails, (together, apart), took_s, peak)


def jobs_by_rail(result: CounterDiagnosis, topology: Topology) -> dict[int, dict[int, int]]:
    """The job of each busy server, from the ports of one rail alone, by rail.

    A server without a job is a group of its own.
    """
    nics = np.array([topology.endpoints[code].nic for code in result.codes])
    servers = topology.servers[result.codes].astype(np.int64)
    limits = link_bps(topology)[result.codes]
    found = {}
    for rail in np.unique(nics):
        rows = np.flatnonzero(nics == rail)
        part = part_of(result.curves, rows)
        jobs = find_jobs(part, servers[rows], limits[rows])
        alone = -1 - np.arange(rows.size)
        groups = np.where(jobs.job >= 0, jobs.job, alone)
        found[int(rail)] = {
            int(servers[rows[place]]): int(groups[place]) for place in np.flatnonzero(jobs.busy)
        }
    return found


def part_of(curves: Curves, rows: Ints) -> Curves:
    """The curves of some of the ports."""
    return replace(
        curves,
        ports=[curves.ports[row] for row in rows],
        moved=curves.moved[rows],
        known=curves.known[rows],
        pace=curves.pace[rows],
    )


def agreement(first: dict[int, int], second: dict[int, int]) -> tuple[int, int]:
    """Couples of servers busy on both rails that are together on either, and on one only."""
    both = sorted(first.keys() & second.keys())
    return disagreement([first[server] for server in both], [second[server] for server in both])


def naive_by_rail(result: CounterDiagnosis, topology: Topology) -> dict[int, dict[int, int]]:
    """Groups of busy servers with equal bytes on a rail, without any regard to time."""
    nics = np.array([topology.endpoints[code].nic for code in result.codes])
    servers = topology.servers[result.codes]
    size = result.curves.moved.sum(axis=2, dtype=np.float64).min(axis=1)
    found = {}
    for rail in np.unique(nics):
        rows = np.flatnonzero((nics == rail) & result.jobs.busy)
        order = rows[np.argsort(size[rows])]
        jumps = np.diff(np.log(np.maximum(size[order], 1.0))) > NAIVE_SAME
        groups = np.concatenate([[0], np.cumsum(jumps)])
        found[int(rail)] = dict(zip(servers[order].tolist(), groups.tolist(), strict=True))
    return found


def steps_of_parts(result: CounterDiagnosis) -> list[dict[str, Any]]:
    """For each job: median and spread of its single steps, and what stands out."""
    rows = []
    for number in range(result.jobs.count):
        name = f"job-{number}"
        steps = result.diagnosis.steps[result.diagnosis.steps["job"] == name]
        own = steps[steps["address"] == steps["address"].iloc[0]] if len(steps) else steps
        took_s = ((own["end_ns"] - own["start_ns"]) / 1e9).to_numpy(float)
        rows.append(
            {
                "steps": took_s.size,
                "low_s": float(np.quantile(took_s, 0.05)) if took_s.size else None,
                "median_s": float(np.median(took_s)) if took_s.size else None,
                "high_s": float(np.quantile(took_s, 0.95)) if took_s.size else None,
            }
        )
    return rows
