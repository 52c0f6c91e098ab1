"""gNMI: what gnmic writes, as JSON lines of its formats ``event`` and ``json``.

A message of a subscription to ``/interfaces/interface/state/counters`` has the counters of one
interface that changed, at the time of the switch.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from llmprism.counters.names import column_of, refuse_rates
from llmprism.counters.readers.merging import Column, merged
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.tables import as_words
from llmprism.counters.readings import Readings
from prism_common.errors import Problem, UserError

NAME = "gnmic"
_INTERFACE = re.compile(r"interface\[name=([^\]]+)\]")


def knows(_path: Path, head: bytes) -> bool:
    """Whether these are messages of gnmic."""
    return b'"timestamp"' in head and (b'"tags"' in head or b'"updates"' in head)


def read(path: Path, options: Options) -> Readings:
    """Read one file of messages."""
    counts: Counter[str] = Counter()
    columns: list[Column] = []
    names: set[str] = set()
    for port, time_ns, name, value in _updates(path, counts):
        column = column_of(name, options.side)
        names.add(name)
        if column is None:
            continue
        try:
            columns.append((port, column, np.array([time_ns]), as_words([int(value)])))
        except (TypeError, ValueError):
            counts["values that are no number"] += 1
    if not columns:
        refuse_rates(names, str(path))
        raise UserError(Problem("no in-octets and out-octets", str(path), "subscribe to them"))
    return Readings("cumulative", merged(columns, counts), counts)


def _updates(path: Path, counts: Counter[str]) -> Iterator[tuple[str, int, str, Any]]:
    """Port, time, name and value of every counter."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
                events = message if isinstance(message, list) else [message]
                parts = [part for event in events for part in _of_message(event)]
            except (ValueError, KeyError, TypeError, AttributeError):
                counts["lines that are no message"] += 1
                continue
            yield from parts


def _of_message(event: dict[str, Any]) -> Iterator[tuple[str, int, str, Any]]:
    time_ns = int(event["timestamp"])
    if "tags" in event:
        tags = event["tags"]
        switch = str(tags.get("source", "")).partition(":")[0]
        port = tags.get("interface_name") or tags.get("name", "")
        for name, value in event["values"].items():
            yield f"{switch}/{port}", time_ns, name, value
        return
    switch = str(event.get("source", "")).partition(":")[0]
    for update in event.get("updates", []):
        path = str(update.get("Path", "")) or str(event.get("prefix", ""))
        matched = _INTERFACE.search(f"{event.get('prefix', '')}/{path}")
        for name, value in update["values"].items():
            if isinstance(value, dict):
                for leaf, number in value.items():
                    yield f"{switch}/{matched[1] if matched else ''}", time_ns, leaf, number
            else:
                yield f"{switch}/{matched[1] if matched else ''}", time_ns, name, value
