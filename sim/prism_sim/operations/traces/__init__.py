"""Failures that were recorded, one file a format; a new format is a new file and one entry."""

from __future__ import annotations

from prism_sim.operations.traces.base import TraceBase
from prism_sim.operations.traces.infinitehbd import InfiniteHbd
from prism_sim.operations.traces.table import Table
from prism_sim.registry import Registry, by_literal

TRACES: Registry[type[TraceBase]] = Registry(
    "prism_sim.operations.traces",
    InfiniteHbd,
    Table,
    name_of=by_literal,
)
"""Each format by its name in a study."""
