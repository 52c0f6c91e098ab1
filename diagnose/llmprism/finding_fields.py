"""Fields of a row of the table ``findings``, which any method may have filled.

A field that is absent, or has another type than it should, is read as None or as an empty text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any


def evidence_of(finding: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of a finding; empty if it is no JSON object."""
    try:
        content = json.loads(str(finding.get("evidence")))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def cost_share(finding: Mapping[str, Any]) -> float | None:
    """By how much the steps of the finding are longer, as a fraction of a normal step."""
    share = evidence_of(finding).get("step_share")
    if isinstance(share, int | float) and math.isfinite(share):
        return float(share)
    cost, start, end = (number(finding.get(key)) for key in ("cost", "start_ns", "end_ns"))
    if cost is None or start is None or end is None or not 0 <= cost < end - start:
        return None
    return cost / (end - start - cost)


def confidence_of(finding: Mapping[str, Any]) -> float:
    """How often such findings were right, in [0, 1]; 0 if a method does not say."""
    return number(finding.get("confidence")) or 0.0


def names_in(names: Any) -> Iterator[str]:
    """Names in a list of names, or of objects with a name."""
    for one in names if isinstance(names, list) else []:
        name = one.get("name") if isinstance(one, dict) else one
        if isinstance(name, str):
            yield name


def step_of(finding: Mapping[str, Any], key: str) -> int | None:
    """The number of a step in the column ``key``; None if it is unknown."""
    value = number(finding.get(key))
    return None if value is None or value < 0 else int(value)


def number(value: Any) -> float | None:
    """``value`` if it is a finite number."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    found = value if isinstance(value, int) else float(value)
    return found if math.isfinite(found) else None


def text(value: Any) -> str:
    """``value`` if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def plain(name: str) -> str:
    """A name of a column or key in words."""
    return name.replace("_", " ")
