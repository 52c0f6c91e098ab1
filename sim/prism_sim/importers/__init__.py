"""Importers of other tools' traces, one file a kind.

A new kind is a new file with a class that derives from
:class:`~prism_sim.importers.base.TraceFile` and has a literal ``kind``, and one line below:
among :data:`GraphTrace` if it has the tasks of every rank, among :data:`TimedTrace` if it has the
durations of an ordinary job's passes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from prism_sim.importers.base import TraceFile
from prism_sim.importers.chakra import Chakra
from prism_sim.importers.simai import SimAI
from prism_sim.importers.timeline import MeasuredTimeline

GraphTrace: TypeAlias = Annotated[Chakra | SimAI, Field(discriminator="kind")]
"""Any trace that replaces a model and a schedule."""

TimedTrace: TypeAlias = MeasuredTimeline
"""Any trace that replaces the durations computed from a model."""

GRAPHS: dict[str, type[TraceFile]] = {
    model.model_fields["kind"].default: model for model in get_args(get_args(GraphTrace)[0])
}
TIMINGS: dict[str, type[TraceFile]] = {"timeline": MeasuredTimeline}
KINDS = GRAPHS | TIMINGS
"""The class of each kind of trace, by its name in a scenario."""

__all__ = ["GRAPHS", "KINDS", "TIMINGS", "GraphTrace", "TimedTrace", "TraceFile"]
