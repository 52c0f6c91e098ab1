"""JSON: answers of Prometheus to ``query_range``, series, and messages of any collector.

*Prometheus.* A file has one document, or one a line. A result without a metric's name is that of a
function, mostly ``rate()``, and is refused: rates hide resets and holes. So are recording rules of
rates, whose names say it (``instance:ifHCInOctets:rate5m``).

*Series.* VictoriaMetrics and Mimir export one a line: its labels, values and times [ms]. Graphite,
OpenTSDB and Datadog give a list of them, with points.

*Messages.* One a line, or a list of them: gnmic (formats ``event`` and ``json``), Telegraf, Cisco's
model-driven telemetry, OpenTelemetry, collectd, Metricbeat, ``ip -s -j link``, and whatever has
counters with a time and labels beside or around them. A port is named by a key in the path
(``interface[name=eth1]``), by a label, or by the element before the counters
(``COUNTERS/Ethernet4`` of SONiC).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request

from llmprism.counters.names import WALKED, WHY_NO_RATES, is_time, meaning_of, plain, port_above
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import LABELS, PATH_KEY, WITH_PORT, Samples, of_path
from llmprism.counters.readings import Readings
from llmprism.ingest.options import moment_of
from llmprism.ingest.sources import Source
from llmprism.io.asking import answer_of
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, parsed

NAME = "JSON of Prometheus, VictoriaMetrics, gnmic, Telegraf or Cisco"
LONGEST = 1 << 28
"""Bytes of a document, or of an answer of a server."""
MOST_POINTS = 10_000
"""Of one answer; Prometheus refuses more than 11,000."""
TIMEOUT_S = 60
HOUR_NS = 3_600_000_000_000
_POINTS = {"datapoints": True, "dps": False, "pointlist": False}
"""Keys of points of a series, and whether the value comes first (Graphite, OpenTSDB, Datadog)."""
_DIFFERENCES = {"DELTA", "AGGREGATION_TEMPORALITY_DELTA", "1"}
"""What says that each value is what was counted since the one before (Google Cloud, OTLP)."""
_DATED = re.compile(r"^\s*(\d[\d.:TZ,+-]{9,40})\s*$", re.MULTILINE)
_NO_MESSAGE = "lines that are no message"


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is JSON, or begins with a line that is its time."""
    return bool(re.match(rb"(\s*\d[\d.:TZ,+-]{9,40}[ \r]*\n)?\s*(\{\s*[\"}]|\[\s*[{\[\]])", head))


def read(path: Path, options: Options) -> Readings:
    """Read one file."""
    samples = Samples(options, file=path.name.partition(".")[0])
    with Source(path).text() as stream:
        text = stream.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise UserError(Problem(f"longer than {LONGEST >> 20} MiB", str(path), "divide it"))
    _, *dated = _DATED.split(text) if text.lstrip()[0].isdigit() else ("", "", text)
    for moment, part in zip(dated[::2], dated[1::2], strict=True):
        time_ns = moment_of(moment) if moment else None
        for document in _documents(part, samples.counts):
            _take_messages(document, time_ns, samples, str(path))
    return samples.readings(str(path))


def _documents(text: str, counts: Counter[str]) -> Iterator[Any]:
    """The whole as one document, or else each line."""
    try:
        every = [parsed(text)]
    except OutsideError:
        every = []
    yield from every
    for line in filter(str.strip, text.splitlines() if not every else ()):
        try:
            yield parsed(line)
        except OutsideError:
            counts[_NO_MESSAGE] += 1


def fetch(url: str, options: Options) -> Readings:
    """Ask a server for both counters between two times, in as many answers as it takes.

    Raises
    ------
    UserError : the server cannot be reached, or refuses the query.
    """
    to_ns = options.to_ns or time.time_ns()
    from_ns = options.from_ns or to_ns - HOUR_NS
    samples = Samples(options)
    for query in options.queries:
        for low in range(from_ns, to_ns, MOST_POINTS * options.step_ns):
            high = min(to_ns, low + MOST_POINTS * options.step_ns) - options.step_ns
            asked = {"query": query, "start": low / 1e9, "end": high / 1e9,
                     "step": options.step_ns / 1e9}  # fmt: skip
            address = f"{url.rstrip('/')}/api/v1/query_range?{urlencode(asked)}"
            _take_messages(_asked(address, url), None, samples, url)
    return samples.readings(url)


def _asked(address: str, url: str) -> Any:
    try:
        return parsed(answer_of(Request(address), TIMEOUT_S, LONGEST))
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        how = "name the server, such as http://prometheus:9090"
        raise UserError(Problem(f"no answer from Prometheus: {reason}", url, how)) from error


def _take_series(node: dict[str, Any], samples: Samples, where: str) -> None:
    """Take a series of Prometheus, of pairs, or as VictoriaMetrics exports it."""
    metric, values = node["metric"], node["values"]
    if not metric.get("__name__"):
        raise UserError(Problem("results of a function, such as rate()", where, WHY_NO_RATES))
    if "timestamps" in node:
        values = [*zip(node["timestamps"] or (), values, strict=False)]
    samples.add_series(metric, str(metric["__name__"]), _points(values, False))


def _take_messages(document: Any, time_ns: int | None, samples: Samples, where: str) -> None:
    for event in document if isinstance(document, list) else [document]:
        data = event.get("data") or event if isinstance(event, dict) else {}
        if "errorType" in data or (isinstance(data, dict) and "resultType" in data):
            if data.get("resultType") != "matrix":
                what = f"no range of values ({str(data.get('resultType', 'no data'))[:40]})"
                how = "ask query_range for a counter, without a function"
                raise UserError(Problem(what, where, how))
            event = data.get("result")
        try:
            has_time = _take(event, {}, time_ns, "", samples, where)
        except RecursionError:
            has_time = False
        samples.counts[_NO_MESSAGE] += not has_time


def _take(
    node: Any, labels: dict[str, str], time_ns: int | None, path: str, samples: Samples, where: str
) -> bool:
    """Take the counters below a node, with labels and time of those around it.

    Returns whether a time is known.
    """
    node = _named(node)
    if isinstance(node, list):
        return sum(_take(one, labels, time_ns, path, samples, where) for one in node) > 0
    if not isinstance(node, dict):
        return time_ns is not None
    if isinstance(node.get("metric"), dict) and isinstance(node.get("values"), list):
        _take_series(node, samples, where)
        return True
    unit, own = samples.options.time_unit, []
    for one in (node, *_beside(node)):
        labels = labels | _labels(one)
        own += [moment_of(value, unit) for key, value in one.items() if is_time(key)]
    time_ns = next((one for one in own if one is not None), time_ns)
    if _DIFFERENCES & {str(node.get(key)) for key in ("metricKind", "aggregationTemporality")}:
        samples.form = "differences"
    path = "/".join(str(one) for one in (path, *map(node.get, WALKED["paths"])) if one)
    found = time_ns is not None
    for key, value in node.items():
        if key in _POINTS:
            path = str(node.get("target"))
            name, at = of_path(path) if "target" in node else (labels.get("__name__", ""), labels)
            samples.add_series(at, name, _points(value, _POINTS[key]))
            found = True
        elif isinstance(value, dict | list):
            found |= _take(value, labels, time_ns, f"{path}/{key}", samples, where)
        elif plain(key) not in LABELS and not is_time(key) and key not in WALKED["paths"]:
            at, name = _counter_at(path, key, labels)
            samples.add(at, name, -1 if time_ns is None else time_ns, value)
    return found


def _counter_at(path: str, key: str, labels: dict[str, str]) -> tuple[dict[str, str], str]:
    """The labels and the name of a counter at a key below a path, which may have its name."""
    is_value = plain(key) in WALKED["values"]
    whole = path if is_value and meaning_of(path) else f"{path}/{key}"
    above, _, name = whole.rpartition("/")
    if not meaning_of(name):
        name = str(labels.get("__name__")) if is_value else f"{above.rpartition('/')[2]} {name}"
    keys = PATH_KEY.findall(whole)
    port = keys[-1] if keys else "" if {*labels} & {*WALKED["ports"]} else port_above(above)
    return ({**labels, "interface_name": port} if port else labels), name


def _named(node: Any) -> Any:
    """A node whose values have names beside them (OpenTelemetry, InfluxQL, collectd), by name."""
    if not isinstance(node, dict | list):
        return node
    if isinstance(node, list):
        pairs = [one for one in node if isinstance(one, dict) and {*one} == {"key", "value"}]
        own = {str(one["key"]): one["value"] for one in pairs}
        plain_own = {k: [*v.values(), ""][0] if isinstance(v, dict) else v for k, v in own.items()}
        return plain_own if len(pairs) == len(node) > 0 else node
    if isinstance(frame := node.get("schema"), dict) and isinstance(node.get("data"), dict):
        heads, columns = frame.get("fields"), node["data"].get("values")
        if isinstance(heads, list) and isinstance(columns, list):  # a frame of Grafana
            return [
                {"metric": head.get("labels"), "values": [*zip(columns[0], one, strict=False)]}
                for head, one in zip(heads[1:], columns[1:], strict=False)
                if isinstance(head, dict) and isinstance(columns[0], list) and isinstance(one, list)
            ]
    node = {key: _leaf(one) for key, one in node.items()} if isinstance(node, dict) else {}
    values: Any = node.get("values")
    names = isinstance(values, list) and (node.get("columns") or node.get("dsnames"))
    if not isinstance(names, list):
        return node
    rest = {key: one for key, one in node.items() if key not in ("columns", "dsnames", "values")}
    if "columns" in node:
        rows = [one for one in values if isinstance(one, list)]
        return {**rest, "rows": [dict(zip(map(str, names), one, strict=False)) for one in rows]}
    return rest | {f"{node.get('type')} {k}": v for k, v in zip(names, values, strict=False)}


def _leaf(value: Any) -> Any:
    """A value, also where Junos writes it as a list of one object."""
    is_one = isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)
    return value[0].get("data", value) if is_one else value


def _beside(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects whose values are labels of what is beside them."""
    for key, inner in node.items():
        if isinstance(one := _named(inner), dict) and plain(key) in WALKED["labels"]:
            yield one
            yield from _beside(one)
        elif isinstance(one, dict) and plain(key) in LABELS and "name" in one:
            yield {key: one["name"]}


def _points(points: Any, is_value_first: bool) -> Iterator[tuple[int, object]]:
    """Times [ns] and values of a list of pairs, or of an object by time."""
    for one in [*points.items()] if isinstance(points, dict) else points:
        is_pair = isinstance(one, list | tuple) and len(one) == 2
        time, value = (None, None) if not is_pair else one[::-1] if is_value_first else one
        yield moment_of(time) or -1, value


def _labels(node: dict[str, Any]) -> dict[str, str]:
    """The labels in an object; ``name`` may be that of the message, or of the counter below."""
    own = {LABELS.get(plain(key), "") if key[-6:] != "/@name" else "interface_name": str(one)
           for key, one in node.items()
           if one and isinstance(one, str | int) and key[:2] != "__"}  # fmt: skip
    own.pop("", None)
    if {"tags", "values", "fields", "sum", "gauge"} & {*node}:
        own.pop("name", None)
    sure = WALKED["names"][: None if "sum" in node else -1]
    named = next((one for key, one in node.items() if plain(key) in sure and one), None)
    named = named.get("type") if isinstance(named, dict) else named
    own |= {key: one for key, one in (("__name__", named), ("direction", node.get("direction")))
            if one and isinstance(one, str)}  # fmt: skip
    return {key: found[1] if (found := WITH_PORT.fullmatch(one)) else one
            for key, one in own.items()}  # fmt: skip
