"""The trace of InfiniteHBD: 584 faults of 400 servers in 348 days.

Its source is https://github.com/stepfun-ai/InfiniteHBD-Trace (Apache-2.0). The file is a list
of events, each of which begins or ends a fault of a node; times are in days. Two faults of the
published file overlap with another one of the same node.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from prism_common.errors import Problem, UserError
from prism_sim.operations.traces.base import Outage, TraceBase


class InfiniteHbd(TraceBase):
    """Events ``fault_start`` and ``fault_end`` of nodes, in JSON."""

    kind: Literal["infinitehbd"] = "infinitehbd"

    def rows(self, path: Path) -> list[Outage]:
        try:
            events = json.loads(path.read_text(encoding="utf-8"))
            return _outages(events, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"this is no trace of InfiniteHBD: {type(error).__name__} {error}"
            raise UserError(Problem(what, str(path))) from error


def _outages(events: list[dict[str, Any]], path: Path) -> list[Outage]:
    """Pairs of a begin and the next end of the same fault on the same node.

    A fault without an end lasts until the last event.
    """
    begun: defaultdict[tuple[str, str], list[Outage]] = defaultdict(list)
    found, problems, last_days = [], [], 0.0
    for number, event in enumerate(events):
        where = f"{path}, event {number}"
        node, fault = event["node_id"], event["fault_type"]
        key = (node, json.dumps(fault, sort_keys=True))
        at_days = float(event["event_time"])
        last_days = max(last_days, at_days)
        if event["event_type"] == "fault_start":
            begun[key].append(Outage(node, at_days, at_days, fault["Class"], where=where))
        elif begun[key]:
            found.append(replace(begun[key].pop(0), until_days=at_days, where=where))
        else:
            problems.append(Problem(f"a fault of {node} ends without a begin", where))
    if problems:
        raise UserError(problems)
    open_ones = (outage for outages in begun.values() for outage in outages)
    return found + [replace(outage, until_days=last_days) for outage in open_ones]
