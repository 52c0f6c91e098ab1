"""Rates by leaf: what the NICs of each leaf switch send and receive over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.nics import bonds
from llmprism.page.rates import binned_bytes
from llmprism.page.tables import Tables

Ints = NDArray[np.int64]

_BINS = 300
_LEAVES = 32


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
    several = bonds(tables.topology)
    every = {*leaf_of.values()}.union(*several.values())
    names = sorted(every, key=lambda name: (len(name), name))
    rates = {
        side: _rates(_rows(near, end, leaf_of, several, names), near, len(names), (first, last))
        for side, end in (("sent", "src"), ("received", "dst"))
    }
    total = rates["sent"].sum(axis=1) + rates["received"].sum(axis=1)
    kept = sorted(np.argsort(-total, kind="stable")[:_LEAVES].tolist())
    return {
        "names": [names[row] for row in kept],
        "omitted": len(names) - len(kept),
        "start_ms": (first - tables.origin_ns) / 1e6,
        "bin_ms": (last - first) / _BINS / 1e6,
        **{side: [_short(rate[row]) for row in kept] for side, rate in rates.items()},
    }


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
    row: Ints, flows: pd.DataFrame, leaves: int, extent: tuple[float, float]
) -> NDArray[np.float64]:
    start, end, size = (flows[name].to_numpy(float) for name in ("start_ns", "end_ns", "bytes"))
    size = binned_bytes(row, start, end, size, (leaves, _BINS), extent)
    return size * 8 / max((extent[1] - extent[0]) / _BINS, 1.0)  # bit/ns is Gbit/s


def _short(rates: NDArray[np.float64]) -> list[float]:
    """Four digits of each rate."""
    return [float(f"{rate:.4g}") for rate in rates.tolist()]
