"""How much the clocks of two places differ, from flows that both saw in both directions.

A flow from A to B passes A's place first, then B's, a transit later; a flow from B to A the other
way around. With d the transit and e the difference of the clocks, the second place is late by
d + e in one direction and by -d + e in the other: half of the sum is e. One direction alone
shows nothing, as its transit is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.numerics.arrays import Ints

MOST_OFFSETS = 200  # offsets of one pair and direction; their median changes little after that
_MOST_KEYS = 1 << 16
_FEWEST = 10  # offsets of a direction, for a median
_LARGER = 4  # times the bytes of its answer, for a record that is data
_SILENCE_NS = 10_000_000  # before a burst; also how far clocks may differ here

Key = tuple[str, str, str, str]
"""Two places in order of name, then source and destination of the flows."""


@dataclass
class ClockOffsets:
    """Offsets of places, and what they show of the clocks."""

    _offsets: dict[Key, list[float]] = field(default_factory=dict)

    def add(
        self, places: tuple[str, str], ends: tuple[str, str], offsets_ns: Sequence[float]
    ) -> None:
        """Add how much later the second place saw flows from ``ends[0]`` to ``ends[1]``."""
        is_turned = places[0] > places[1]
        key = (*(places[::-1] if is_turned else places), *ends)
        if key in self._offsets or len(self._offsets) < _MOST_KEYS:
            kept = self._offsets.setdefault(key, [])
            kept += [-one if is_turned else one for one in offsets_ns[: MOST_OFFSETS - len(kept)]]

    def differences_ns(self) -> dict[tuple[str, str], float]:
        """Return, for places that saw both directions, how far the second clock is ahead."""
        usual = {key: median(all_) for key, all_ in self._offsets.items() if len(all_) >= _FEWEST}
        both: dict[tuple[str, str], list[float]] = {}
        for (one, other, src, dst), there in usual.items():
            back = usual.get((one, other, dst, src))
            if back is not None and src < dst:
                both.setdefault((one, other), []).append((there + back) / 2)
        return {places: median(found) for places, found in both.items()}


def clock_error_ns(differences: dict[tuple[str, str], float]) -> float | None:
    """Return the largest difference of two clocks; None if none can be seen."""
    return max(map(abs, differences.values()), default=None)


def of_answers(flows: FlowTable) -> ClockOffsets:
    """Return the offsets between data and its answer, of connections with both.

    After a silence, the two directions of a connection start together: data, and its
    acknowledgements. Each is recorded at its own source's switch.
    """
    found = ClockOffsets()
    names = ("src_port", "dst_port")
    if not len(flows) or any(name not in flows.optional for name in names):
        return found
    bursts = _bursts(flows)
    for src, dst, offset in zip(*(bursts[name].tolist() for name in bursts), strict=True):
        ends = (flows.addresses[src], flows.addresses[dst])
        found.add(ends, ends, [float(offset)])
    return found


def _bursts(flows: FlowTable) -> pd.DataFrame:
    """Return a row a burst: source and destination of its data, and the offset of the answer."""
    ports = [flows.optional[name].astype(np.int64) for name in ("src_port", "dst_port")]
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    there, back = _connection(src, dst, *ports), _connection(dst, src, *ports[::-1])
    frame = pd.DataFrame(
        {
            "connection": np.minimum(there, back),
            "src": src,
            "dst": dst,
            "start": flows.start_ns - flows.start_ns.min(),
            "end": flows.end_ns - flows.start_ns.min(),
            "bytes": flows.bytes,
        }
    )[(ports[0] >= 0) & (ports[1] >= 0)].sort_values(["connection", "start"], kind="stable")
    until = frame.groupby("connection")["end"].cummax().groupby(frame["connection"]).shift()
    begins = ~(frame["start"] - until <= _SILENCE_NS)  # the first of a connection has none before
    frame["burst"] = begins.cumsum()
    firsts = frame.groupby(["burst", "src"], as_index=False, sort=False).first()
    both = firsts.merge(firsts[["burst", "src", "start", "bytes"]], on="burst")
    data = both[(both["src_x"] != both["src_y"]) & (both["bytes_x"] > _LARGER * both["bytes_y"])]
    offset = data["start_y"] - data["start_x"]
    found = data.assign(src=data["src_x"], offset=offset)[["src", "dst", "offset"]]
    return found[offset.abs() <= _SILENCE_NS]


def _connection(src: Ints, dst: Ints, src_port: Ints, dst_port: Ints) -> Ints:
    """Return one number for each source, destination and ports."""
    ends = (src << 31) | dst
    number: Ints = ends * 1_000_003 + (src_port << 16) + dst_port
    return number
