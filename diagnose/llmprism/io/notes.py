"""What happened while reading: how much was read, what was set aside and why, and remarks.

Nothing is dropped silently: whatever does not become a record is counted here by reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_REMARKS = 100  # kept; more say nothing new


@dataclass
class Notes:
    """Counts of one ingest, filled by readers and stages.

    Attributes
    ----------
    records : flow records written.
    set_aside : packets, lines or records that became no record, by reason.
    remarks : what a reader of the result should know, each once.
    idle_gap_ns, active_timeout_ns : how records were cut, where the sources tell; every value.
    named_points : observation points that records name themselves, and not their files.
    clock_error_ns : how much the clocks of observation points differ; None if that is unknown.
    """

    records: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    idle_gap_ns: set[int] = field(default_factory=set)
    active_timeout_ns: set[int] = field(default_factory=set)
    named_points: set[str] = field(default_factory=set)
    clock_error_ns: int | None = None

    def drop(self, reason: str, count: int = 1) -> None:
        """Count what is set aside."""
        if count:
            self.set_aside[reason] += int(count)

    def remark(self, text: str) -> None:
        """Add a remark, once; no text is none."""
        if text and text not in self.remarks and len(self.remarks) < _REMARKS:
            self.remarks.append(text)

    def as_dict(self) -> dict[str, Any]:
        """Return a form that JSON can hold."""
        return {
            "records": self.records,
            "set_aside": dict(sorted(self.set_aside.items())),
            "remarks": self.remarks,
        }

    def lines(self) -> list[str]:
        """Return what to print: what was set aside, most first, and the remarks."""
        dropped = [f"set aside {count:,}: {why}" for why, count in self.set_aside.most_common()]
        return [*dropped, *self.remarks]
