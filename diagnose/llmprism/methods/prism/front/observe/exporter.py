"""What the exporter of the records does: its clock, its idle gap, and its points of observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.front.parameters import (
    DOUBLED_SHARE,
    IDLE_QUANTILE,
    LEAST_SILENCE_NS,
)
from llmprism.numerics.arrays import Bools, Ints


@dataclass(frozen=True)
class Exporter:
    """How records are cut.

    Attributes
    ----------
    idle_ns : shortest silence inside a connection that ends a record [ns]; 0 if not seen.
    tick_ns : resolution of the clock [ns].
    floor_ns : shortest silence that means anything [ns].
    doubled : whether each transfer is recorded at two points.
    """

    idle_ns: float
    tick_ns: float
    floor_ns: float
    doubled: bool


def describe_exporter(connection: Ints, start: Ints, end: Ints, size: Ints) -> Exporter:
    """Estimate the exporter from records in order of (connection, start)."""
    same: Bools = connection[1:] == connection[:-1]
    silence = (start[1:] - end[:-1])[same]
    positive = silence[silence > 0]
    idle = float(np.quantile(positive, IDLE_QUANTILE)) if positive.size else 0.0
    tick = float(clock_tick_ns(start))
    tick = tick if tick >= 1000 else 1.0
    equal = (size[1:] == size[:-1])[same]
    overlaps = float(np.mean(equal & (silence < 0))) if silence.size else 0.0
    floor = max(2 * tick, LEAST_SILENCE_NS, idle / 2)
    return Exporter(idle, tick, floor, overlaps > DOUBLED_SHARE)
