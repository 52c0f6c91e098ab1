"""What is known of exporters from one file to the next: their starts, and their sequences.

NetFlow v9 counts datagrams, v5 and IPFIX count records. A number that is higher than expected shows
that something was lost on the way, one that is a little lower that a datagram came late, and one
that is much lower that the exporter has started again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from llmprism.ingest.exports import Scope
from llmprism.ingest.starts import Starts

_WRAP = 1 << 32
_MOST_GAP = 1 << 20  # a larger one is a restart
_MOST_LATE = 1 << 14  # units that a datagram comes late by, at most
_MOST_SCOPES = 1 << 14


@dataclass
class Sequences:
    """The next number of each exporter, and what is missing, by the address of the exporter."""

    lost: Counter[bytes] = field(default_factory=Counter)
    _next: dict[Scope, int | None] = field(default_factory=dict)

    def saw(self, scope: Scope, number: int, units: int | None) -> None:
        """Take note of a datagram with so many units; None if they cannot be counted."""
        if scope not in self._next and len(self._next) >= _MOST_SCOPES:
            return
        expected = self._next.get(scope)
        gap = None if expected is None else (number - expected) % _WRAP
        if gap is not None and gap >= _WRAP - _MOST_LATE:
            self.lost[scope[0]] -= min(units or 0, self.lost[scope[0]])
            return
        if gap is not None and gap <= _MOST_GAP:
            self.lost[scope[0]] += gap
        self._next[scope] = None if units is None else (number + units) % _WRAP


@dataclass
class ExporterMemory:
    """What a reader of several files carries over."""

    starts: Starts = field(default_factory=Starts)
    sequences: Sequences = field(default_factory=Sequences)
