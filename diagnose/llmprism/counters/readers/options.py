"""What a user says about counters that the inputs do not."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.counters.readings import Form, Side
from llmprism.ingest import options


@dataclass(frozen=True)
class Options(options.Options):
    """Options of all readers: those of records, of which columns and times are used, and more.

    Attributes
    ----------
    form : whether counters are cumulative, if the values do not show it.
    side : whether a switch or a NIC names the directions, if names do not show it.
    queries : for a URL: the counters in and out, as Prometheus names them.
    step_ns : for a URL: interval of the readings.
    """

    form: Form | None = None
    side: Side | None = None
    queries: tuple[str, ...] = ("ifHCInOctets", "ifHCOutOctets")
    step_ns: int = 15_000_000_000
