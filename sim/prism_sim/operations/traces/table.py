"""A table in CSV: a row for each outage."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from prism_common.errors import Problem, UserError
from prism_sim.operations.traces.base import Outage, TraceBase

_COLUMNS = ("server", "from_days", "until_days", "cause")


class Table(TraceBase):
    """A table in CSV with the columns ``server``, ``from_days``, ``until_days`` and ``cause``."""

    kind: Literal["table"] = "table"

    def rows(self, path: Path) -> list[Outage]:
        with path.open(encoding="utf-8", errors="replace", newline="") as text:
            reader = csv.DictReader(text)
            if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
                what = f"the trace has no column {', '.join(missing)}"
                raise UserError(Problem(what, f"{path}:1", f"columns: {', '.join(_COLUMNS)}"))
            return [_outage(row, f"{path}:{reader.line_num}") for row in reader]


def _outage(row: dict[str, str], where: str) -> Outage:
    try:
        begins, ends = float(row["from_days"]), float(row["until_days"])
    except (TypeError, ValueError):
        what = f"{row['from_days']!r} and {row['until_days']!r} are not both numbers"
        raise UserError(Problem(what, where)) from None
    if not row["server"] or not row["cause"]:
        raise UserError(Problem("an outage needs a server and a cause", where))
    return Outage(row["server"], begins, ends, row["cause"], where=where)
