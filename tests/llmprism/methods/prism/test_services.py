"""Services beside training: their traffic joins no job, and hides no steps."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.classes import Component, TrafficClass, find_components
from llmprism.methods.prism.jobs.jobs import _in_time, _training
from llmprism.methods.prism.records.connections import find_connections
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.methods.prism.segment.stepping import Part, Stepping
from llmprism.methods.prism.segment.steps import find_steps

MS = 1_000_000


def couple(starts_ms, forth, size=1000) -> Traffic:
    """Messages of 1 ms between two endpoints."""
    start = (np.array(starts_ms) * MS).astype(np.int64)
    rows = np.arange(start.size)
    same = np.zeros(start.size, np.int32)
    return Traffic(rows, start, start + MS, np.zeros(start.size, np.int64) + size, same, forth)


def slow_first_stage(steps: int, micro_batches: int = 8) -> Traffic:
    """Two stages of 1F1B of which the first now and then sends only after all was answered."""
    starts, forth = [], []
    for step in range(steps):
        own = [True, *[True, False] * (micro_batches - 1), False]
        for at in {4 + 2 * (step % 4), 8 + 2 * (step % 3)}:
            own[at - 1], own[at] = own[at], own[at - 1]
        starts += [step * 300 + 10 * i for i in range(len(own))]
        forth += own
    return couple(starts, np.array(forth))


def beside_a_service(differs: float, returned: bool = False):
    """Two ranks of 16 steps, and a service that sends a little to one of them all the time."""
    rng = np.random.default_rng(2)
    rows, ports = [], []
    for step in range(16):
        for i in range(8):
            for src in (0, 1):
                begin = (step * 200 + 10 * i) * MS
                rows.append((begin, begin + 5 * MS, src, 1 - src, 10_000_000))
                ports.append(100 + src)
        begin = (step * 200 + 50) * MS
        size = int(400_000 * rng.uniform(1 - differs, 1 + differs))
        for src, dst in ((2, 0), (0, 2))[: 1 + returned]:
            rows.append((begin, begin + MS, src, dst, size))
            ports.append(300 + src)
    order = sorted(range(len(rows)), key=lambda i: rows[i][0])
    columns = [np.array(column) for column in zip(*(rows[i] for i in order), strict=True)]
    src, dst = (column.astype(np.int32) for column in columns[2:4])
    more = {"src_port": np.array(ports)[order], "dst_port": np.full(len(rows), 4791)}
    blank = np.full(len(rows), -1, np.int32)
    names = ["a", "b", "c"]
    return FlowTable(*columns[:2], src, dst, columns[4], blank, names, [], more, {})


@pytest.mark.parametrize(
    ("differs", "returned", "kept"),
    [(0.0, False, [True]), (0.2, False, [False]), (0.2, True, [True, True])],
)
def test_little_traffic_is_of_a_job_only_if_it_is_as_exact_or_answered(differs, returned, kept):
    flows = beside_a_service(differs, returned)
    connections = find_connections(flows)
    major = connections.carries & ~connections.minor
    (component,) = find_components(flows, connections, major)
    part = Part(component, find_steps(component))
    minor = np.flatnonzero(connections.minor)
    assert part.stepping.count == 16
    assert _in_time(flows, connections, [part], minor).tolist() == kept


def noise(last_ms: int) -> Traffic:
    rng = np.random.default_rng(4)
    starts = np.sort(rng.uniform(0, last_ms, 200))
    return couple(starts, rng.random(200) < 0.5, rng.lognormal(6, 1.5, 200).astype(np.int64) + 1)


def test_a_job_that_is_short_beside_services_shows_its_steps():
    job = slow_first_stage(10)
    both = tuple(
        TrafficClass(np.array([2 * i, 2 * i + 1]), True, traffic)
        for i, traffic in enumerate((job, noise(40_000)))
    )
    assert find_steps(Component(np.arange(4, dtype=np.int32), both)).count == 10


@pytest.mark.parametrize(("count", "parts"), [(4, 1), (12, 2)])
def test_a_few_equal_parts_of_little_traffic_are_no_job(count, parts):
    busy, little = couple(range(0, 4000, 2), np.arange(2000) % 2 == 0, 10_000), noise(4000)
    little = couple(little.start_ns / MS, little.forth, 1500)
    nothing = np.empty(0, np.int64)
    own = [
        Part(
            Component(np.arange(2), (TrafficClass(np.arange(2), True, traffic),)),
            Stepping(steps, quality, 0, (), nothing, nothing),
        )
        for traffic, steps, quality in ((busy, 20, 0.99), (little, count, 0.75))
    ]
    assert len(_training(own)) == parts
