"""Readings: the values of counters as an exporter gives them, not yet checked.

``in`` is what a switch port receives from the server, ``out`` what it sends to it. An exporter on
the host sees the reverse (:data:`NIC`); readers turn it around, so that ``in`` is always what the
server sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from llmprism.numerics.arrays import Ints

IN, OUT = "in_bytes", "out_bytes"
EVENTS = (
    "in_packets", "out_packets", "in_discards", "out_discards", "in_errors", "out_errors",
    "ecn_marks", "pause_frames", "link_downs",
)  # fmt: skip
"""Counters that a table may have besides."""
COLUMNS = (IN, OUT, *EVENTS)

Form = Literal["cumulative", "differences"]
Unit = Literal["bytes", "words", "bits"]
"""What a counter of bytes counts: bytes, words of 4 bytes, or bits."""
Side = Literal["switch", "nic"]
SWITCH: Side = "switch"
NIC: Side = "nic"


@dataclass(frozen=True)
class PortReadings:
    """The readings of one port, in the order of the exporter.

    Attributes
    ----------
    port : NIC address, or any name that :mod:`llmprism.counters.naming` finds in the topology.
    time_ns : shape (readings,).
    values : by column of :data:`COLUMNS`, each of shape (readings,); bytes in both directions at
        least. Numbers from 2^63 on are stored as negative ones.
    counter : the name of the counters of bytes, without their direction. A port that has several
        such counters has an entry for each.
    unit : what they count by their name.
    has_zone : whether the times are of a known zone.
    aliases : other names of the port.
    """

    port: str
    time_ns: Ints
    values: Mapping[str, Ints]
    counter: str = ""
    unit: Unit = "bytes"
    has_zone: bool = True
    aliases: Sequence[str] = ()


@dataclass(frozen=True)
class Readings:
    """The readings of all ports.

    Attributes
    ----------
    form : ``cumulative`` counters, or ``differences`` since the last reading of the port; None if
        the input does not say it.
    ports : one entry a port and counter.
    set_aside : rows that could not be read, by reason.
    """

    form: Form | None
    ports: Sequence[PortReadings]
    set_aside: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """Readings of all ports, and rows that could not be read."""
        return sum(port.time_ns.size for port in self.ports) + self.set_aside.total()


def mirrored(column: str) -> str:
    """The same column as the other end of the cable names it.

    >>> mirrored("in_bytes"), mirrored("ecn_marks")
    ('out_bytes', 'ecn_marks')
    """
    side, _, rest = column.partition("_")
    return f"{ {'in': 'out', 'out': 'in'}.get(side, side) }_{rest}"
