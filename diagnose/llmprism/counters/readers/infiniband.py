"""InfiniBand: what ``perfquery -x`` prints, again and again, with the time before each answer.

``PortXmitData`` and ``PortRcvData`` count words of 4 bytes. The time is a line of its own, as
``date +%s.%N`` or ``date --iso-8601=ns`` prints it. The counters without ``-x`` have 32 bits and
stop at their highest value, so they are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from llmprism.counters.names import column_of
from llmprism.counters.readers.merging import merged
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.tables import as_words
from llmprism.counters.readings import NIC, SWITCH, Readings
from prism_common.errors import Problem, UserError

NAME = "perfquery"
WORD_BYTES = 4
_HEAD = re.compile(r"# Port (extended )?counters: Lid (\d+)(?:[^p]*)port (\d+)", re.IGNORECASE)
_FIELD = re.compile(r"(\w+):\.*(\d+)$")
_EPOCH = re.compile(r"\d{9,10}\.?\d*$")
_HOW = "while sleep 1; do date +%s.%N; perfquery -x LID PORT; done"


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is output of perfquery."""
    return b"counters: Lid" in head


def read(path: Path, options: Options) -> Readings:
    """Read one file; words become bytes, and the sides are those of the port that was asked.

    ``--side switch`` says that LIDs are those of switches; default: those of NICs.
    """
    columns = []
    counts: Counter[str] = Counter()
    for port, time_ns, fields in _blocks(path, counts):
        for name, value in fields.items():
            column = column_of(name, SWITCH if options.side == SWITCH else NIC)
            if column is not None:
                size = WORD_BYTES if name.endswith("Data") else 1
                columns.append((port, column, np.array([time_ns]), as_words([value * size])))
    return Readings("cumulative", merged(columns, counts), counts)


def _blocks(path: Path, counts: Counter[str]) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Port, time and counters of each answer."""
    time_ns, port = None, ""
    fields: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        head, moment = _HEAD.match(line), _moment(line.strip())
        if head or moment:
            if fields and time_ns is not None:
                yield port, time_ns, fields
            fields = {}
        if moment:
            time_ns = moment
        elif head:
            _check(head, time_ns, f"{path}:{number}")
            port = f"lid{head[2]}/{head[3]}"
        elif matched := _FIELD.match(line.strip()):
            fields[matched[1]] = int(matched[2])
        elif line.strip():
            counts["lines that are no counter"] += not line.startswith(("#", "CounterSelect"))
    if fields and time_ns is not None:
        yield port, time_ns, fields


def _check(head: Any, time_ns: int | None, where: str) -> None:
    if not head[1]:
        what = "counters of 32 bits, which stop at 4,294,967,295"
        raise UserError(Problem(what, where, "ask for those of 64 bits: perfquery -x"))
    if time_ns is None:
        raise UserError(Problem("no time before this answer", where, f"write one: {_HOW}"))


def _moment(line: str) -> int | None:
    """The time of a line that has nothing else, in ns."""
    if _EPOCH.match(line):
        whole, _, part = line.partition(".")
        return int(whole) * 10**9 + int(part.ljust(9, "0")[:9] or 0)
    if not re.match(r"\d{4}-\d\d-\d\d[T ]", line):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"[.,](\d{6})\d*", r".\1", line))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000
