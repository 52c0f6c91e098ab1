"""A class of connections with the kind of its traffic, and the step of each of its records."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats, Ints


@dataclass(frozen=True)
class KindOf:
    """Kind and confidence of a class of connections, and the step of each of its records.

    It may be the part of a class that is in one stage.

    Attributes
    ----------
    shown : the kind that records show, where a layout is given that excludes it.
    """

    one: TrafficClass
    kind: str
    confidence: float
    step: Codes
    shown: str = ""

    @property
    def connections(self) -> Ints:
        """Numbers of its connections."""
        return self.one.connections

    @property
    def traffic(self) -> Traffic:
        """Its records on one line."""
        return self.one.traffic

    def cells(self, connections: Connections, count: int) -> tuple[Ints, Ints]:
        """Records whose step is known, and the number of each one's connection and step."""
        return self.one.cells(connections, self.step, count)

    def volumes(self, connections: Connections, count: int) -> Floats:
        """Bytes that each connection moves in each step, shape (connections, count)."""
        return self.one.volumes(connections, self.step, count)
