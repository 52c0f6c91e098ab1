"""What a user says about counters that the inputs do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmprism.counters.readings import Form, Side


@dataclass(frozen=True)
class Options:
    """Options of all readers.

    Attributes
    ----------
    mapping : names of the table's columns, by ours.
    form : whether counters are cumulative, if the values do not show it.
    side : whether a switch or a NIC names the directions, if names do not show it.
    time_unit : of numeric times (s, ms, us, ns), if their size does not show it.
    from_ns, to_ns : the time to read.
    queries : for a URL: the counters in and out, as Prometheus names them.
    step_ns : for a URL: interval of the readings.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    form: Form | None = None
    side: Side | None = None
    time_unit: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    queries: tuple[str, ...] = ("ifHCInOctets", "ifHCOutOctets")
    step_ns: int = 15_000_000_000
