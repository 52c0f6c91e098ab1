"""Rates by leaf: what the NICs of each leaf switch send and receive over time.

A silence of all leaves, as after a crash, would fill most of the chart with nothing. So the longest
one is cut out if it takes most of the time. The bytes of a record are spread evenly over its
duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.nics import bonds
from llmprism.page.tables import Tables
from llmprism.part_names import natural

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BINS = 300
_LEAVES = 32
_LONG = 0.5  # of all time: a silence that lasts for longer is cut out


@dataclass(frozen=True)
class Cut:
    """A silence that a chart leaves out."""

    start_ns: float
    length_ns: float = 0.0

    def shown(self, times_ns: Floats) -> Floats:
        """Times on an axis without the silence [ns]."""
        return times_ns - np.clip(times_ns - self.start_ns, 0.0, self.length_ns)


def leaf_rates(tables: Tables) -> dict[str, Any] | None:
    """Sent and received [Gbit/s] of each leaf in equal bins; None if no leaf or record is known."""
    leaf_of = {
        str(end["address"]): str(end["switch"])
        for end in tables.topology.get("endpoints", [])
        if end.get("switch")
    }
    flows, steps = tables.flows, tables.steps
    if not leaf_of or not len(flows):
        return None
    times = steps if len(steps) else flows
    first, last = float(times["start_ns"].min()), float(times["end_ns"].max())
    near = flows[(flows["end_ns"] >= first) & (flows["start_ns"] <= last)]
    if not len(near):
        return None
    cut = _silence(near, first, last)
    shown_ns = (first, last - cut.length_ns)
    several = bonds(tables.topology)
    every = {*leaf_of.values()}.union(*several.values())
    names = sorted(every, key=natural)
    rates = {
        side: _rates(_rows(near, end, leaf_of, several, names), near, len(names), shown_ns, cut)
        for side, end in (("sent", "src"), ("received", "dst"))
    }
    total = rates["sent"].sum(axis=1) + rates["received"].sum(axis=1)
    kept = sorted(np.argsort(-total, kind="stable")[:_LEAVES].tolist())
    capacity = _capacities(tables.topology, leaf_of)
    bin_ns = (shown_ns[1] - shown_ns[0]) / _BINS
    silence = {"bin": (cut.start_ns - first) / bin_ns, "length_ms": cut.length_ns / 1e6}
    return {
        "names": [names[row] for row in kept],
        "capacity": [capacity.get(names[row]) for row in kept],
        "omitted": len(names) - len(kept),
        "start_ms": (first - tables.origin_ns) / 1e6,
        "bin_ms": bin_ns / 1e6,
        "cut": silence if cut.length_ns else None,
        **{side: [_short(rate[row]) for row in kept] for side, rate in rates.items()},
    }


def _silence(flows: pd.DataFrame, first: float, last: float) -> Cut:
    """The longest time without records, if it takes most of the time from ``first`` to ``last``."""
    start = np.append(flows["start_ns"].to_numpy(float), last)
    end = np.append(flows["end_ns"].to_numpy(float), last)
    order = np.argsort(start, kind="stable")
    until = np.maximum.accumulate(np.append(first, end[order][:-1]))
    silent = start[order] - until
    longest = int(np.argmax(silent))
    if silent[longest] <= _LONG * (last - first):
        return Cut(last)
    return Cut(float(until[longest]), float(silent[longest]))


def _capacities(topology: dict[str, Any], leaf_of: dict[str, str]) -> dict[str, float]:
    """What the NICs of each leaf carry in one direction [Gbit/s]; none if a rate is unknown."""
    rates: dict[str, list[float | None]] = {}
    for link in topology.get("links", []):
        for end, other in ((link["a"], link["b"]), (link["b"], link["a"])):
            if end in leaf_of:
                rates.setdefault(str(other), []).append(link.get("gbps"))
    known = {name: [one for one in each if one is not None] for name, each in rates.items()}
    return {name: sum(known[name]) for name, each in rates.items() if len(known[name]) == len(each)}


def _rows(
    flows: pd.DataFrame,
    side: str,
    leaf_of: dict[str, str],
    several: dict[str, set[str]],
    names: list[str],
) -> Ints:
    """Place in ``names`` of the leaf of each record's ``side``; -1 where it is not known."""
    place = {name: row for row, name in enumerate(names)}
    column = flows[side].astype("category").cat
    lookup = [place.get(leaf_of.get(str(address), ""), -1) for address in column.categories]
    row: Ints = np.array([*lookup, -1], np.int64)[column.codes.to_numpy(np.int64)]
    if not several or "path" not in flows:
        return row
    path = flows["path"].astype("category").cat
    hop = 0 if side == "src" else -1
    ends = [place.get(str(text).split("|")[hop], -1) for text in path.categories]
    seen = np.array([*ends, -1], np.int64)[path.codes.to_numpy(np.int64)]
    bonded = np.isin(column.categories.astype(str), [*several])
    return np.where(np.append(bonded, False)[column.codes.to_numpy(np.int64)], seen, row)


def _rates(
    row: Ints, flows: pd.DataFrame, leaves: int, extent: tuple[float, float], cut: Cut
) -> Floats:
    start, end = (cut.shown(flows[name].to_numpy(float)) for name in ("start_ns", "end_ns"))
    size = flows["bytes"].to_numpy(float)
    size = binned_bytes(row, start, end, size, (leaves, _BINS), extent)
    return size * 8 / max((extent[1] - extent[0]) / _BINS, 1.0)  # bit/ns is Gbit/s


def _short(rates: Floats) -> list[float]:
    """Four digits of each rate."""
    return [float(f"{rate:.4g}") for rate in rates.tolist()]


def binned_bytes(row: Ints, start: Floats, end: Floats, size: Floats, shape: tuple[int, int],
                 edges: tuple[float, float]) -> Floats:  # fmt: skip
    """Bytes of each row in each of equally long bins.

    Parameters
    ----------
    row : row of each record; one below 0 is ignored.
    start, end, size : times of each record, and its bytes.
    shape : rows, bins.
    edges : begin of the first bin and end of the last one.
    """
    rows, bins = shape
    first, last = edges
    width = max(last - first, 1e-9) / bins
    known = row >= 0
    row, size = row[known], size[known]
    begin, stop = ((at[known] - first) / width for at in (start, end))
    low = np.clip(begin.astype(np.int64), 0, bins - 1)
    high = np.clip(stop.astype(np.int64), low, bins - 1)
    length = np.maximum(stop - begin, 1e-12)
    result = np.zeros(rows * bins)
    for ahead in range(int((high - low).max(initial=0)) + 1):
        here = low + ahead
        inside = np.minimum(stop, here + 1) - np.maximum(begin, here)
        share = np.where(high == low, 1.0, np.clip(inside / length, 0.0, 1.0))
        result += np.bincount(row * bins + here, size * share, rows * bins)
        more = high > here
        row, low, high = row[more], low[more], high[more]
        size, begin, stop, length = size[more], begin[more], stop[more], length[more]
    return result.reshape(rows, bins)
