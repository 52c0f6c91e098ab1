"""The page of a diagnosis: one HTML file without scripts or links to other files.

Everything from a log is text: markup in it is escaped, and the page forbids scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import PackageLoader

from llmlog.tables import Results, ranges
from prism_common.files import replacing_marked
from prism_common.templates import filled

_LINES = 60
"""Lines of a failure that are shown; causes come first, then what the others reported."""
_NAMES = 4
_SAME = ("role", "kind", "template")
"""What events have in common that are shown as one line."""
_ORDER = {"cause": 0, "flows": 0, "cascade": 1, "teardown": 2, "boilerplate": 3}


def write_page(results: Results, path: Path) -> None:
    """Write the page.

    Raises
    ------
    UserError : the file is no page of llmlog.
    OSError : it cannot be written.
    """
    shown = [_shown(row, results) for row in results.rows["failures"]]
    values = {"jobs": len(results.rows["jobs"]), "failures": shown}
    page = filled("page.html", values, [PackageLoader("llmlog", "")])
    with replacing_marked(path, "llmlog", "--page") as partial:
        partial.write_text(page, encoding="utf-8")


def _shown(row: dict[str, Any], results: Results) -> dict[str, Any]:
    events = [event for event in results.rows["events"] if event["job"] == row["job"]]
    events.sort(key=lambda event: _ORDER.get(event["role"], len(_ORDER)))
    first = set(json.loads(row["ranks"]))
    reported = {event["rank"] for event in events if event["role"] == "cascade"} - first - {None}
    lines = _alike(events)
    return row | {
        "ranks": ranges(first) or "-",
        "causes": list(json.loads(row["or_causes"]).items()),
        "others": len(reported),
        "lines": lines[:_LINES],
        "left_out": max(0, len(lines) - _LINES),
    }


def _alike(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for events that say the same: that of the first, with the nodes and ranks of all."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for event in events:
        groups.setdefault(tuple(event[name] for name in _SAME), []).append(event)
    return [
        same[0]
        | {
            "nodes": _some({event["node"]: None for event in same}),
            "ranks": ranges({event["rank"] for event in same} - {None}),
            "more": len(same) - 1,
        }
        for same in groups.values()
    ]


def _some(names: Iterable[str | None]) -> str:
    """The first names, and how many more there are."""
    known = [name for name in names if name is not None]
    rest = len(known) - _NAMES
    return ", ".join(known[:_NAMES]) + (f" and {rest} more" if rest > 0 else "")
