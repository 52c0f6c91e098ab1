"""Records of two servers, given to the collector without a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from prism_sim.cluster import core
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import flows
from prism_sim.collector import Collector
from prism_sim.collector.config import CollectorConfig as Model
from prism_sim.toolkit import Cluster, Draws

EPOCH = 10**18
MS = 1_000_000
FABRIC = {"kind": "tor", "leaf_ports": 1, "spines": 2}

Record = tuple[int, int, int, int]
"""Start, end, bytes, number of the route."""


def as_records(batch: Iterable[Record]) -> np.ndarray:
    """Flows that ended, without a choice of path."""
    return np.array([(*row, 0) for row in batch], core.RECORD)


def collected(
    folder: Path,
    model: dict[str, Any],
    batches: Sequence[Sequence[Record]],
    lines: int = 1,
    **cluster: Any,
) -> pd.DataFrame:
    """The flow table of single flows, batch after batch, on ``lines`` routes between servers."""
    small = {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1, "fabric": FABRIC}
    layout = Layout(Cluster.model_validate(small | cluster))
    router = Router(layout, Templates(), Draws(0))
    for line in range(lines):
        router.route(0, 1, "a", "dp", line)
    folder.mkdir(exist_ok=True)
    path = folder / "flows.parquet"
    with Collector(Model.model_validate(model), router, EPOCH, path, Draws(3)) as collector:
        for batch in batches:
            records = as_records(batch)
            collector.observe(flows(records))
            collector.advance(int(records["end_ns"].max(initial=0)))
    frame = pd.read_parquet(path)
    frame[["start_ns", "end_ns"]] -= EPOCH
    return frame


def effects(*listed: dict[str, Any]) -> dict[str, Any]:
    """A collector with the effects ``listed`` and no others."""
    return {"effects": list(listed)}


def many(count: int, size: int = 4096 * 10, length: int = 1000) -> list[list[Record]]:
    """One batch of records of ten full packets, one every 10 us."""
    return [[(i * 10_000, i * 10_000 + length, size, 0) for i in range(count)]]


def rows(frame: pd.DataFrame) -> list[tuple[int, int, int]]:
    """Start, end and bytes of every record."""
    return list(frame[["start_ns", "end_ns", "bytes"]].itertuples(index=False, name=None))
