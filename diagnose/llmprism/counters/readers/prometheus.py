"""Prometheus: answers of ``/api/v1/query_range`` as JSON, from a file or a URL.

A result without a metric's name is that of a function, mostly ``rate()``, and is refused: rates
hide resets and holes. A file has the answers to both directions: one JSON document a line, or one
document with all results.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np

from llmprism.counters.names import WHY_NO_RATES, column_of
from llmprism.counters.readers.merging import merged
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.tables import as_words
from llmprism.counters.readings import Readings
from prism_common.errors import Problem, UserError

NAME = "Prometheus"
PORT_LABELS = ("ifName", "ifDescr", "ifAlias", "interface", "device", "port", "name")
SWITCH_LABELS = ("instance", "node", "host", "switch")
MOST_POINTS = 10_000
"""Of one answer; Prometheus refuses more than 11,000."""
TIMEOUT_S = 60
HOUR_NS = 3_600_000_000_000


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is an answer of Prometheus."""
    return b'"resultType"' in head


def read(path: Path, options: Options) -> Readings:
    """Read a file of answers."""
    text = path.read_text(encoding="utf-8")
    try:
        answers = [json.loads(text)]
    except ValueError:
        try:
            answers = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise UserError(Problem(f"not valid JSON: {error}", str(path))) from error
    return _readings(answers, options, str(path))


def fetch(url: str, options: Options) -> Readings:
    """Ask a server for both counters between two times, in as many answers as it takes.

    Raises
    ------
    UserError : the server cannot be reached, or refuses the query.
    """
    to_ns = options.to_ns or time.time_ns()
    from_ns = options.from_ns or to_ns - HOUR_NS
    answers = []
    for query in options.queries:
        for low, high in _pieces(from_ns, to_ns, options.step_ns):
            asked = {"query": query, "start": low / 1e9, "end": high / 1e9,
                     "step": options.step_ns / 1e9}  # fmt: skip
            answers.append(_asked(f"{url.rstrip('/')}/api/v1/query_range?{urlencode(asked)}", url))
    return _readings(answers, options, url)


def _pieces(from_ns: int, to_ns: int, step_ns: int) -> Iterator[tuple[int, int]]:
    while from_ns < to_ns:
        until = min(to_ns, from_ns + MOST_POINTS * step_ns)
        yield from_ns, until - step_ns
        from_ns = until


def _asked(address: str, url: str) -> Any:
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        how = "name the server, such as http://prometheus:9090"
        raise UserError(Problem(f"no answer from Prometheus: {reason}", url, how)) from error


def _readings(answers: list[Any], options: Options, where: str) -> Readings:
    counts: Counter[str] = Counter()
    columns: list[tuple[str, str, Any, Any]] = []
    for answer in answers:
        for result in _results(answer, where):
            column = _column(result.get("metric", {}), options, where)
            if column is None:
                counts["results of other metrics"] += 1
                continue
            times, values = _values(result, counts)
            columns.append((_port(result["metric"]), column, times, values))
    return Readings("cumulative", merged(columns, counts), counts)


def _results(answer: Any, where: str) -> list[dict[str, Any]]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        kind = data.get("resultType") if isinstance(data, dict) else answer.get("error", "no data")
        how = "ask query_range for a counter, without a function"
        raise UserError(Problem(f"no range of values ({kind})", where, how))
    return list(data.get("result", []))


def _column(metric: dict[str, str], options: Options, where: str) -> str | None:
    name = metric.get("__name__")
    if not name:
        raise UserError(Problem("results of a function, such as rate()", where, WHY_NO_RATES))
    return column_of(name, options.side)


def _port(metric: dict[str, str]) -> str:
    """``switch/port``, or an address if a label has one."""
    if "address" in metric:
        return metric["address"]
    names = [
        next((metric[label] for label in labels if label in metric), "")
        for labels in (SWITCH_LABELS, PORT_LABELS)
    ]
    return "/".join(filter(None, names))


def _values(result: dict[str, Any], counts: Counter[str]) -> tuple[Any, Any]:
    pairs = [(float(moment), float(value)) for moment, value in result.get("values", [])]
    usable = [pair for pair in pairs if math.isfinite(pair[1]) and pair[1] >= 0]
    counts["values that are no number"] += len(pairs) - len(usable)
    times = np.array([round(moment * 1e9) for moment, _ in usable], np.int64)
    return times, as_words(value for _, value in usable)
