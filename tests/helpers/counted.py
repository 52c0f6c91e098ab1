"""Counters of imagined jobs, for tests: what ports move in each step, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from llmprism.counters.readings import PortReadings, Readings
from llmprism.io.topology import Topology, parse_topology

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS


def topology(servers: int, nics: int = 1, gbps: float = 200.0) -> Topology:
    """Servers ``s0``, ``s1``, ... with NICs ``a<server>-<nic>``; each rail has a leaf."""
    ends = [(server, nic) for server in range(servers) for nic in range(nics)]
    return parse_topology(
        {
            "endpoints": [
                {"address": f"a{s}-{n}", "server": f"s{s}", "nic": n, "switch": f"leaf{n}"}
                for s, n in ends
            ],
            "switches": [{"name": f"leaf{n}", "tier": "leaf"} for n in range(nics)],
            "links": [{"a": f"a{s}-{n}", "b": f"leaf{n}", "gbps": gbps} for s, n in ends],
        }
    )


def edges(count: int, length_s: float, spread: float, seed: int) -> np.ndarray:
    """Begins of steps [s], of the given mean length; ``spread`` is relative."""
    lengths = length_s * (1 + spread * np.random.default_rng(seed).standard_normal(count))
    return np.concatenate([[0.0], np.cumsum(lengths)])


def moved_until(times_s: np.ndarray, begins_s: np.ndarray, busy: float, size: float) -> np.ndarray:
    """Bytes until each time, if every step moves ``size`` in its last part ``busy``."""
    points, totals = [-1e9], [0.0]
    for number, (begin, end) in enumerate(pairwise(begins_s)):
        points += [end - busy * (end - begin), end]
        totals += [number * size, (number + 1) * size]
    return np.interp(times_s, points, totals)


def port(
    name: str, begins_s: np.ndarray, size: float = 1e9, busy: float = 0.3, every_s: float = 1.0,
    seconds: float = 300.0, late_s: float = 0.0, received: float | None = None,
) -> PortReadings:  # fmt: skip
    """The cumulative counters of a port whose job has steps with these begins."""
    times_s = np.arange(late_s, seconds, every_s)
    sent = moved_until(times_s, begins_s, busy, size)
    back = sent if received is None else moved_until(times_s, begins_s, busy, received)
    return readings_of(name, times_s, sent, back)


def readings_of(name: str, times_s: Any, sent: Any, received: Any = None) -> PortReadings:
    """Readings of plain numbers."""
    column = np.asarray(sent, np.float64).astype(np.int64)
    back = column if received is None else np.asarray(received, np.float64).astype(np.int64)
    time_ns = START_NS + np.rint(np.asarray(times_s, float) * SECOND_NS).astype(np.int64)
    return PortReadings(name, time_ns, {"in_bytes": column, "out_bytes": back})


def cumulative(ports: Sequence[PortReadings]) -> Readings:
    """These ports, with cumulative counters."""
    return Readings("cumulative", ports)
