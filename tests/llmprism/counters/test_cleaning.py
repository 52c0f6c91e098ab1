"""What only looks like traffic is recognised, counted, and never becomes traffic."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from counted import START_NS, readings_of
from llmprism.counters.cleaning import PortSeries, cleaned, refresh_ns, summed
from llmprism.counters.naming import placed
from llmprism.counters.readings import PortReadings
from llmprism.io.topology import parse_topology

LINK_BPS = 1e9  # 125 MB in a second


def series(
    port: PortReadings, form: str = "cumulative", bps: float = LINK_BPS
) -> tuple[PortSeries | None, Counter[str]]:
    counts: Counter[str] = Counter()
    found = cleaned(port, form, bps, counts)
    return found, Counter({name: count for name, count in counts.items() if count})


def moved(
    port: PortReadings, form: str = "cumulative", bps: float = LINK_BPS
) -> tuple[list[int], Counter[str]]:
    found, counts = series(port, form, bps)
    assert found is not None
    return np.diff(found.moved["in_bytes"]).tolist(), counts


TOP = 2**32
BEYOND = 10**15  # bytes that no link carries in a second


@pytest.mark.parametrize(
    ("times", "values", "expected", "counted"),
    [
        ([0, 1, 2, 3], [5, 10, 10, 30], [5, 0, 20], {}),
        ([0, 2, 1, 3], [0, 20, 10, 30], [10, 10, 10], {"readings out of order": 1}),
        ([0, 1, 1, 2], [0, 10, 10, 20], [10, 10], {"readings that repeat another": 1}),
        (
            [0, 1, 1, 2, 3],
            [0, 10, 400, 20, 30],
            [20, 10],
            {"readings that contradict another of the same time": 2},
        ),
        ([0, 1, 2, 3], [TOP - 30, TOP - 10, 15, 40], [20, 25, 25], {"wraps at 32 bits": 2}),
        ([0, 1, 2, 3], [1000, 2000, 5, 25], [1000, 0, 20], {"resets": 2}),
        (
            [0, 1, 2, 3],
            [0, 10**7, BEYOND, BEYOND + 10**7],
            [10**7, 0, 10**7],
            {"differences that no link carries": 2},
        ),
    ],
    ids=["plain", "out of order", "repeated", "contradicting", "wrap", "reset", "beyond a link"],
)
def test_a_counter_moves_what_its_differences_say(times, values, expected, counted):
    """What is undone, or set aside, is counted: in both directions, where each has its own."""
    found, counts = moved(readings_of("a", times, values))
    assert (found, counts) == (expected, counted)


@pytest.mark.parametrize(
    ("values", "expected", "counted"),
    [([7, 10, 20], [10, 20], {}), ([0, -5, 10], [0, 10], {"differences below zero": 2})],
)
def test_differences_are_taken_as_they_are_unless_below_zero(values, expected, counted):
    assert moved(readings_of("a", [0, 1, 2], values), "differences") == (expected, counted)


def test_a_wrap_at_64_bits_is_undone():
    values = np.array([2**64 - 30, 2**64 - 10, 15], np.uint64).view(np.int64)
    port = PortReadings("a", np.arange(3) * 10**9, {"in_bytes": values, "out_bytes": values})
    found, counts = moved(port)
    assert found == [20, 25]
    assert counts["wraps at 64 bits"] == 2  # in and out


def test_a_counter_of_32_bits_that_a_link_wraps_twice_shows_nothing():
    fast = 400e9  # 50 GB in a second
    values = [2**32 - 30, 2**32 - 10, 15, 40]
    found, counts = series(readings_of("a", [0, 1, 2, 3], values), bps=fast)
    assert found is not None
    assert found.moved["in_bytes"].tolist() == [0, 0, 0, 0]
    assert found.blank.all()
    assert sum(counts[name] for name in counts if "more than once" in name) == 2


def test_the_bytes_of_a_hole_are_known_and_their_times_are_not():
    times = [*range(10), *range(60, 70)]
    found, counts = series(readings_of("a", times, [10**6 * t for t in times]))
    assert found is not None
    assert int(found.moved["in_bytes"][-1]) == 69 * 10**6
    assert np.flatnonzero(found.blank).tolist() == [0, 10]
    assert counts == {"holes": 1}


@pytest.mark.parametrize("times", [[], [1]])
def test_a_port_needs_two_readings(times):
    found, counts = series(readings_of("a", times, [5 for _ in times]))
    assert found is None
    assert counts == {"ports with fewer than two readings": 1}


def test_the_refresh_is_what_values_show_and_not_the_interval_of_readings():
    times = np.arange(0, 60, 0.5)
    found, _ = series(readings_of("a", times, np.floor(times / 2) * 10**6))
    assert found is not None
    assert refresh_ns([found]) == 2 * 10**9


def test_other_counters_are_added_up():
    port = readings_of("a", [0, 1, 2, 3], [0, 10, 20, 30])
    values = dict(port.values) | {"in_errors": np.array([3, 3, 5, 9])}
    found, _ = series(PortReadings("a", port.time_ns, values))
    assert found is not None
    assert found.events == {"in_errors": 6}


def test_ports_of_one_nic_count_together_at_the_times_of_the_first():
    counts: Counter[str] = Counter()
    first = cleaned(readings_of("a", [0, 2, 4, 6], [0, 20, 20, 40]), "cumulative", 1e9, counts)
    second = cleaned(readings_of("b", [1, 3, 5], [0, 10, 30]), "cumulative", 1e9, counts)
    assert first is not None
    assert second is not None
    both = summed([first, second])
    assert ((both.time_ns - START_NS) / 1e9).tolist() == [2, 4]
    assert both.moved["in_bytes"].tolist() == [20 + 5, 20 + 20]
    assert summed([first]) is first


def test_ports_of_a_bond_are_known_by_switch_and_address():
    content = {
        "endpoints": [{"address": "a", "server": "s", "nic": 0}],
        "switches": [{"name": name, "tier": "leaf"} for name in ("leaf0", "leaf1")],
        "links": [{"a": "a", "b": name, "gbps": 100} for name in ("leaf0", "leaf1")],
    }
    names = ("leaf0/a", "leaf1/a", "leaf2/a")
    ports = [readings_of(name, [0, 1], [0, 1]) for name in names]
    known, unknown = placed(ports, parse_topology(content), {})
    assert [(code, port.port) for code, port in known] == [(0, "leaf0/a"), (0, "leaf1/a")]
    assert [*unknown] == ["leaf2/a"]
