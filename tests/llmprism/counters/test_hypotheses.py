"""What counters count is decided by whole series: the one consistent answer is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counted import START_NS, edges, moved_until, port, readings_of, topology
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose
from llmprism.counters.readings import PortReadings, Readings
from prism_common.errors import UserError

SLOW = 10.0
"""Gbit/s: 2^32 bytes take 3.4 s."""


def jobs(size: float = 3e9, **more) -> list[PortReadings]:
    """Two jobs of four servers, with steps of 12 and 17 s."""
    ports = []
    for job, (length_s, count) in enumerate(((12.0, 50), (17.0, 36))):
        begins = edges(count, length_s, 0.0, job)
        ports += [
            port(f"a{4 * job + k}-0", begins, size=size, busy=0.4, seconds=600.0, **more)
            for k in range(4)
        ]
    return ports


def changed(ports: list[PortReadings], change, **more) -> list[PortReadings]:
    """The same ports, with other values."""
    return [
        replace(p, values={name: change(values) for name, values in p.values.items()}, **more)
        for p in ports
    ]


def found(ports, form=None, gbps=SLOW) -> CounterDiagnosis:
    return diagnose(Readings(form, ports), topology(8, gbps=gbps))


def steps_s(result: CounterDiagnosis) -> list[float]:
    return sorted(round(rhythm.period_ns / 1e9, 1) for rhythm in result.rhythms)


def sent(result: CounterDiagnosis) -> float:
    return float(result.diagnosis.jobs["in_bytes"].max())


def as_differences(values):
    return np.diff(values, prepend=values[0])


def wrapped(values):
    return values % 2**32


TAKEN = {
    "counters": (jobs(), SLOW),
    "wraps at 32 bits, many of them": (changed(jobs(), wrapped), SLOW),
    "differences": (changed(jobs(), as_differences), SLOW),
    "words that fit their links": (
        changed(jobs(), lambda v: v // 4, counter="port data", unit="words"), SLOW),
    "words by their name that are bytes": (
        changed(jobs(), lambda v: v, counter="port data", unit="words"), 4.0),
    "bits": (changed(jobs(), lambda v: v * 8, counter="bits", unit="bits"), SLOW),
    "old counters beside those of 64 bits": (
        jobs() + changed(jobs(), wrapped, counter="if octets"), SLOW),
    "Ethernet beside RDMA": (jobs() + changed(jobs(), lambda v: v // 999, counter="bytes"), SLOW),
    "one reset of each port": (
        changed(jobs(), lambda v: np.where(np.arange(v.size) < 300, v + 10**12, v)), SLOW),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_the_answer_that_alone_is_consistent_is_taken(name):
    ports, gbps = TAKEN[name]
    result = found(ports, gbps=gbps)
    assert steps_s(result) == [12.0, 17.0]
    assert sent(result) == pytest.approx(3e9, rel=0.03)


def spread_evenly(values):
    """Values below 2^32 that rise and fall as often."""
    return np.random.default_rng(values.size).integers(0, 2**32, values.size)


REFUSED = {
    "wraps or differences": (
        changed(jobs(), spread_evenly), 30.0, r"32 bits that wrap and differences(.|\n)*--form"),
    "half of the readings in another unit": (
        changed(jobs(), lambda v: v // np.where(np.arange(v.size) % 2, 1000, 1) + 10**13),
        SLOW, "neither counters nor differences nor rates"),
    "rates or differences": (
        [replace(p, time_ns=START_NS + 15 * (p.time_ns - START_NS))
         for p in changed(jobs(1e6), as_differences)], SLOW, "differences.* and rates a second"),
    "more than the links carry": (
        changed(jobs(), lambda v: v * 20), SLOW, "does not fit the links(.|\n)*topology"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_several_answers_or_none_are_refused_with_all_of_them(name):
    ports, gbps, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        found(ports, gbps=gbps)


def test_what_the_user_says_decides_the_form():
    ports = changed(jobs(1e6), as_differences)
    assert steps_s(found(ports, "differences")) == [12.0, 17.0]


def test_an_hour_that_a_local_clock_repeats_is_counted_once():
    begins = edges(400, 12.0, 0.0, 1)
    true_s = np.arange(0.0, 4500.0)
    local_s = np.where(true_s < 4000, true_s, true_s - 3600)
    ports = [
        readings_of(f"a{s}-0", local_s, moved_until(true_s, begins, 0.4, 3e9)) for s in range(4)
    ]
    ports = [replace(one, has_zone=False) for one in ports]
    result = found(ports)
    assert steps_s(result) == [12.0]
    assert any("clock went back by an hour" in one for one in result.remarks)


def test_what_was_counted_and_used_is_printed():
    result = found(changed(jobs(), wrapped))
    assert any(one.endswith("wraps at 32 bits") for one in result.remarks)
