"""The page of a diagnosis: one HTML file without scripts or links to other files.

Everything from a log is text: markup in it is escaped, and the page forbids scripts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import PackageLoader

from llmlog.errors import LogError
from llmlog.tables import Results
from llmprism.files import is_foreign, replacing
from llmprism.templates import filled

_EVENTS = 60
"""Events of a failure that are shown; causes come first, then what the others reported."""
_ORDER = {"cause": 0, "flows": 0, "cascade": 1, "teardown": 2, "boilerplate": 3}


def write_page(results: Results, path: Path) -> None:
    """Write the page.

    Raises
    ------
    LogError : the file cannot be written, or is no page of llmlog.
    """
    if is_foreign(path, "llmlog"):
        raise LogError(str(path), "was not written by llmlog", "give another file with --page")
    failures = [_shown(row, results) for row in results.rows["failures"]]
    values = {"jobs": len(results.rows["jobs"]), "failures": failures}
    page = filled("page.html", values, [PackageLoader("llmlog", "")])
    try:
        with replacing(path) as partial:
            partial.write_text(page, encoding="utf-8")
    except OSError as error:
        what = f"cannot be written ({error.strerror or error})"
        raise LogError(str(path), what, "give another file with --page") from None


def _shown(row: dict[str, Any], results: Results) -> dict[str, Any]:
    events = [event for event in results.rows["events"] if event["job"] == row["job"]]
    events.sort(key=lambda event: _ORDER.get(event["role"], len(_ORDER)))
    first = set(json.loads(row["ranks"]))
    reported = {event["rank"] for event in events if event["role"] == "cascade"} - first - {None}
    return row | {
        "ranks": ", ".join(map(str, sorted(first))) or "-",
        "causes": list(json.loads(row["or_causes"]).items()),
        "others": len(reported),
        "events": events[:_EVENTS],
        "left_out": max(0, len(events) - _EVENTS),
    }
