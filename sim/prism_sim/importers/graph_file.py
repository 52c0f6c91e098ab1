"""Base of importers of traces that have the tasks of every rank."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from prism_sim.importers import consistency
from prism_sim.importers.base import TraceFile, TraceProblems
from prism_sim.scenario.graph import Graph


class GraphFile(TraceFile):
    """A trace that becomes a graph of tasks a rank."""

    content: ClassVar[str] = "graph"

    graph: Graph | None = Field(
        default=None, description="What was read from the file; filled in when it is read."
    )

    def verify(self, content: Any) -> None:
        found = TraceProblems()
        programs = [content.program(rank) for rank in range(len(content.ranks))]

        def place(rank: int, number: int) -> str:
            return f"rank {rank}, task {number}"

        consistency.check(programs, content.families, place, found)
        found.refuse()
