"""Lines with samples: output of programs that print counters again and again, and line protocols.

``perfquery -x`` (InfiniBand), ``ethtool -S``, lists of ``name: value`` or ``name value``, files of
``/sys/class`` with their names (``grep . FILES``), ``snmpwalk``, the text of a Prometheus exporter
and InfluxDB's line protocol are read. The time is in the line, or in a line of its own before, as
``date +%s.%N`` or ``date --iso-8601=ns`` prints it. A line ``eth0:``, a head of perfquery, a path,
an index or labels name the port; without one, the file is called by it. The counters of perfquery
without ``-x`` have 32 bits and stop at their highest value, so they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llmprism.counters.names import WHY_NO_RATES, is_rate, meaning_of
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import Samples, labelled
from llmprism.counters.readings import Readings
from llmprism.ingest.options import moment_of
from llmprism.ingest.sources import Source
from prism_common.errors import Problem, UserError

NAME = "lines of perfquery, ethtool, snmpwalk, /sys, Prometheus or InfluxDB"
LONGEST_LINE = 1 << 12
_HEAD = re.compile(
    r"# Port (extended )?counters: Lid (\d{1,9})(?:[^p]*)port (\d{1,9})", re.IGNORECASE
)
_VALUE = r"(\d{1,20}|\d\.\d{1,20}e\+\d{1,2})"
_FIELD = re.compile(r"([A-Za-z][\w.-]*?)\s*(?::[.\s]*|\s*=\s*|\s+)" + _VALUE)
_RATE = re.compile(r"([A-Za-z][\w.-]*?)\s*:\s*(\d[\d.,]*\s*[kKMGT]?i?[Bb](?:it|yte)?s?(?:ps|/s).*)")
_LABELLED = re.compile(r"(\w+\{.*\})\s+" + _VALUE + r"(?:\s+(\d{9,19}))?")
_INFLUX = re.compile(r"[^ ,]+((?:,[^ ,=]+=(?:\\.|[^ ,\\])+)*) ([^ =]+=[^ ]+) (\d{9,19})")
_PATH = re.compile(r"(/[\w./:@-]*/)(\w+)\s*[:= ]\s*" + _VALUE)
_OID = re.compile(r"(?:[\w-]+::)?(\w+)\.(\d{1,9}) = (?:[A-Za-z]+\d*): \"?([^\"]*)\"?")
_AROUND = {"sys", "class", "net", "infiniband", "ports", "counters", "hw_counters", "statistics"}
_PORT = re.compile(r"(?:NIC statistics for )?([\w.@/-]+):$")
_HOW = "while sleep 1; do date +%s.%N; perfquery -x LID PORT; done"


class _Sample(NamedTuple):
    """A value in a line: labels (none if lines before name the port), name, value and time."""

    labels: dict[str, str]
    name: str
    value: str
    time: str | None = None


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is output of such a program: perfquery, or lines of counters that are known."""
    if b"counters: Lid" in head:
        return True
    lines = [line.strip() for line in head.decode("utf-8", errors="replace").split("\n")[:400]]
    names = [one.name for line in lines for one in _samples_of(line)]
    names += [found[1] for line in lines if (found := _RATE.fullmatch(line))]
    return len(names) > 1 and any(map(meaning_of, names))


def read(path: Path, options: Options) -> Readings:
    """Read one file.

    Raises
    ------
    UserError : an answer has no time before it, rates, or counters of 32 bits.
    """
    samples, file = Samples(options, has_changes_only=False), {"file": path.name.partition(".")[0]}
    labels: dict[str, str] = {"port": file["file"]}
    time_ns: int | None = None
    with Source(path).text() as stream:
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number, line = number + 1, line.strip()
            every = [*_samples_of(line)]
            for one in every:
                moment = moment_of(one.time, options.time_unit) if one.time else time_ns
                if moment is None:
                    what, where = "no time before this answer", f"{path}:{number}"
                    raise UserError(Problem(what, where, f"write one: {_HOW}"))
                if one.name in ("ifName", "ifDescr"):
                    samples.aliases.setdefault(one.labels["port"], one.value)
                else:
                    port = {**file, **one.labels} if one.labels else labels
                    samples.add(port, one.name, moment, one.value)
            if every:
                continue
            if len(line) > 8 and (moment := moment_of(line)) is not None:
                time_ns = moment
            elif head := _HEAD.match(line):
                _check(head, f"{path}:{number}")
                labels = {"port": f"lid{head[2]}/{head[3]}"}
            elif named := _PORT.fullmatch(line):
                labels = {**file, "port": named[1]}
            elif line and not line.startswith(("#", "CounterSelect", "NIC statistics")):
                _refuse_rate(line, f"{path}:{number}")
                samples.counts["lines that are no counter"] += 1
    return samples.readings(str(path))


def _samples_of(line: str) -> Iterator[_Sample]:
    """The samples in a line."""
    if found := _LABELLED.fullmatch(line):
        name, labels = labelled(found[1])
        yield _Sample(labels, name, found[2], found[3])
    elif found := _INFLUX.fullmatch(line):
        tags = dict(re.findall(r",([^=]+)=((?:\\.|[^,\\])+)", found[1]))
        for name, value in re.findall(r"([^=,]+)=([^,]+)", found[2]):
            yield _Sample(tags, name, value.rstrip("iu"), found[3])
    elif found := _PATH.fullmatch(line):
        port = "/".join(part for part in found[1].strip("/").split("/") if part not in _AROUND)
        yield _Sample({"port": port}, found[2], found[3])
    elif found := _OID.fullmatch(line):
        yield _Sample({"port": found[2]}, found[1], found[3])
    elif found := _FIELD.fullmatch(line):
        yield _Sample({}, found[1], found[2])


def _refuse_rate(line: str, where: str) -> None:
    found = _RATE.fullmatch(line)
    if found and meaning_of(found[1]) and is_rate(found[2]):
        raise UserError(Problem(f"{line[:80]!r}: rates, and no counters", where, WHY_NO_RATES))


def _check(head: re.Match[str], where: str) -> None:
    if not head[1]:
        what = "counters of 32 bits, which stop at 4,294,967,295"
        raise UserError(Problem(what, where, "ask for those of 64 bits: perfquery -x"))
