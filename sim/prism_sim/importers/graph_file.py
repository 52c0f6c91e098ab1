"""Base of importers of traces that have the tasks of every rank."""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.importers import consistency
from prism_sim.importers.base import TraceFile, TraceProblems
from prism_sim.scenario.graph import Graph


class GraphFile(TraceFile):
    """A trace that is converted to one graph of tasks per rank."""

    content: ClassVar[str] = "graph"

    graph: Graph | None = None
    """The converted content; filled in when the file is read."""

    def verify(self, content: Any) -> None:
        found = TraceProblems()
        programs = [content.program(rank) for rank in range(len(content.ranks))]

        def place(rank: int, number: int) -> str:
            return f"rank {rank}, task {number}"

        consistency.check(programs, content.families, place, found)
        found.refuse()
