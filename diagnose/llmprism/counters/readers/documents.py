"""JSON: answers of Prometheus to ``query_range``, and messages of gnmic.

*Prometheus.* A file has one document, or one a line. A result without a metric's name is that of a
function, mostly ``rate()``, and is refused: rates hide resets and holes. So are recording rules of
rates, whose names say it (``instance:ifHCInOctets:rate5m``).

*gnmic.* One message a line, or a list of them, in its formats ``event`` and ``json``. The path
before a counter names its port, as a key (``interface[name=eth1]``) or as the element before the
counters (``COUNTERS/Ethernet4`` of SONiC), if no tag does.
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
from urllib.request import urlopen

from llmprism.counters.names import WHY_NO_RATES
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import NO_TIME, WITH_PORT, Samples
from llmprism.counters.readings import Readings
from llmprism.ingest import bounds
from llmprism.ingest.sources import Source
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, parsed, real, whole

NAME = "JSON of Prometheus or gnmic"
LONGEST = 1 << 28
"""Bytes of a document, or of an answer of a server."""
MOST_POINTS = 10_000
"""Of one answer; Prometheus refuses more than 11,000."""
TIMEOUT_S = 60
HOUR_NS = 3_600_000_000_000
_KEY = re.compile(r"\[(?:name|ifname|port)=([^\]]+)\]")
_AROUND = frozenset({"counters", "state", "COUNTERS", "interface", "interfaces", ""})
_NO_MESSAGE = "lines that are no message"


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is JSON of one of them."""
    of_gnmic = b'"timestamp"' in head and (b'"tags"' in head or b'"updates"' in head)
    return b'"resultType"' in head or of_gnmic


def read(path: Path, options: Options) -> Readings:
    """Read one file."""
    samples = Samples(options)
    with Source(path).text() as stream:
        text = stream.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise UserError(Problem(f"longer than {LONGEST >> 20} MiB", str(path), "divide it"))
    of_prometheus = '"resultType"' in text[:4096]
    for document in _documents(text, samples.counts):
        if of_prometheus:
            _take_answer(document, samples, str(path))
        else:
            _take_messages(document, samples)
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
            _take_answer(_asked(address, url), samples, url)
    return samples.readings(url)


def _asked(address: str, url: str) -> Any:
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            return parsed(answer.read(LONGEST))
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        how = "name the server, such as http://prometheus:9090"
        raise UserError(Problem(f"no answer from Prometheus: {reason}", url, how)) from error


def _take_answer(answer: Any, samples: Samples, where: str) -> None:
    data = answer.get("data") if isinstance(answer, dict) else None
    kind = data.get("resultType") if isinstance(data, dict) else "no data"
    if not isinstance(data, dict) or kind != "matrix":
        how = "ask query_range for a counter, without a function"
        raise UserError(Problem(f"no range of values ({str(kind)[:40]})", where, how))
    results = data.get("result")
    for result in results if isinstance(results, list) else []:
        metric = result.get("metric") if isinstance(result, dict) else None
        if not isinstance(metric, dict):
            samples.counts["results without a metric"] += 1
            continue
        if not metric.get("__name__"):
            what = "results of a function, such as rate()"
            raise UserError(Problem(what, where, WHY_NO_RATES))
        pairs = _pairs(result.get("values"), samples.counts)
        samples.add_series(metric, str(metric["__name__"]), pairs)


def _pairs(values: Any, counts: Counter[str]) -> Iterator[tuple[int, object]]:
    for pair in values if isinstance(values, list) else []:
        try:
            moment, value = pair
            yield round(real(moment, 0, bounds.LARGEST / 1e9) * 1e9), value
        except (TypeError, ValueError):
            counts[NO_TIME] += 1


def _take_messages(document: Any, samples: Samples) -> None:
    for event in document if isinstance(document, list) else [document]:
        try:
            time_ns = whole(event["timestamp"], 0, bounds.LARGEST)
            leaves = [*_leaves(event)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            samples.counts[_NO_MESSAGE] += 1
            continue
        tags = event["tags"] if isinstance(event.get("tags"), dict) else event
        own = {key: str(tags[key]) for key in ("source", "interface_name", "name") if tags.get(key)}
        if found := WITH_PORT.fullmatch(own.get("source", "")):
            own["source"] = found[1]
        for path, value in leaves:
            port = _port_of(path)
            labels = {**own, "interface_name": port} if port else own
            if "tags" not in event:
                labels.pop("name", None)
            samples.add(labels, path.rsplit("/", 1)[-1], time_ns, value)


def _leaves(event: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """The path of each value of a message, and the value."""
    before = str(event.get("prefix") or "")
    if "updates" not in event:
        yield from _within(before, event["values"])
        return
    for update in event["updates"]:
        for key, value in update["values"].items():
            path = str(update.get("Path") or "")
            yield from _within(f"{before}/{path}", value if key == path else {key: value})


def _within(path: str, node: Any) -> Iterator[tuple[str, object]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _within(f"{path}/{key}", value)
    else:
        yield path, node


def _port_of(path: str) -> str:
    """The port that a path names: a key, or the element before the counter.

    >>> _port_of("interfaces/interface[name=eth1]/state/counters/in-octets")
    'eth1'
    >>> _port_of("COUNTERS/Ethernet4/SAI_PORT_STAT_IF_IN_OCTETS")
    'Ethernet4'
    """
    keys = _KEY.findall(path)
    elements = path.rsplit("/", 2)
    above = elements[-2] if len(elements) > 1 else ""
    return str(keys[-1]) if keys else "" if above in _AROUND else above
