"""Check that the records of a run fit the capacity of each directed link.

A record has a begin, an end and a number of bytes, but not the times of the bytes in between. There
are two checks. First: is there *any* way to spread the bytes of all records of a link over their
times within its capacity? Serving the record with the earliest deadline first finds a way if there
is one. Second, for records with constant rates: is the sum of their mean rates within the capacity
at every instant?
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

Link = tuple[str, str]


def records_by_link(folder: Path) -> Iterator[tuple[Link, float, pd.DataFrame]]:
    """Every directed link, its capacity [bytes/ns], and the records of the run that crossed it.

    Parallel links between two switches count as one, because a path names switches only.
    """
    flows = pd.read_parquet(folder / "flows.parquet").astype({"src": str, "dst": str, "path": str})
    capacity = capacities(json.loads((folder / "topology.json").read_text()))
    rows: dict[Link, list[np.ndarray]] = defaultdict(list)
    for (src, dst, path), at in flows.groupby(["src", "dst", "path"]).indices.items():
        stops = [src, *path.split("|"), dst]
        for link in itertools.pairwise(stops):
            rows[link].append(at)
    for link, parts in rows.items():
        if link in capacity:
            yield link, capacity[link], flows.iloc[np.concatenate(parts)]


def capacities(topology: dict) -> dict[Link, float]:
    """Bytes a nanosecond of each directed link."""
    total: dict[Link, float] = defaultdict(float)
    for link in topology["links"]:
        for pair in ((link["a"], link["b"]), (link["b"], link["a"])):
            total[pair] += link["gbps"] / 8
    return total


def lateness_ns(records: pd.DataFrame, capacity: float) -> float:
    """By how much the last bytes of a record miss its end at best, on a link of ``capacity``."""
    zero_ns = int(records["start_ns"].min())  # a float cannot hold an epoch in nanoseconds
    start_ns, end_ns = records["start_ns"] - zero_ns, records["end_ns"] - zero_ns
    rows = sorted(zip(start_ns.tolist(), end_ns.tolist(), records["bytes"].tolist(), strict=True))
    waiting: list[tuple[int, float]] = []  # end, time that its bytes still need
    now, worst, i = 0.0, 0.0, 0
    while i < len(rows) or waiting:
        if not waiting:
            now = max(now, float(rows[i][0]))
        while i < len(rows) and rows[i][0] <= now:
            heapq.heappush(waiting, (rows[i][1], rows[i][2] / capacity))
            i += 1
        end_ns, needs_ns = heapq.heappop(waiting)
        until = float(rows[i][0]) if i < len(rows) else float("inf")
        if now + needs_ns <= until:
            now += needs_ns
            worst = max(worst, now - end_ns)
        else:
            heapq.heappush(waiting, (end_ns, needs_ns - (until - now)))
            now = until
    return worst


def peak_rate(records: pd.DataFrame) -> float:
    """The largest sum of the records' mean rates at any instant [bytes/ns]."""
    start_ns, end_ns = (records[name].to_numpy() for name in ("start_ns", "end_ns"))
    long = end_ns > start_ns
    rate = records["bytes"].to_numpy()[long] / (end_ns - start_ns)[long]
    times = np.concatenate([start_ns[long], end_ns[long]])
    change = np.concatenate([rate, -rate])
    order = np.lexsort((change, times))
    return float(np.cumsum(change[order]).max(initial=0.0))
