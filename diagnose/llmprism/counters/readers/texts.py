"""Lines with samples: output of programs that print counters again and again, and line protocols.

``perfquery -x`` (InfiniBand), ``ethtool -S``, lists of ``name: value`` or ``name value``, files of
``/sys/class`` with their names (``grep . FILES``), ``snmpwalk``, sflowtool, goarista's ``gnmi``,
the text of a Prometheus exporter, lines of InfluxDB, Graphite and OpenTSDB are read. The time is in
the line, or in a line before, as ``date +%s.%N`` or ``date --iso-8601=ns`` prints it. A line
``eth0:``, a head of perfquery, a path, an index or labels name the port; without one, the file is
called by it. The counters of perfquery without ``-x`` have 32 bits and stop at their highest value,
so they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llmprism.counters.names import (
    HEADS,
    LINES,
    OIDS,
    SAMPLES,
    WHY_NO_RATES,
    is_rate,
    meaning_of,
    port_above,
)
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import PATH_KEY, Samples, labelled, meaning_with, of_path
from llmprism.counters.readings import Readings
from llmprism.ingest.options import moment_of
from llmprism.ingest.sources import Source
from prism_common.errors import Problem, UserError

NAME = "lines of perfquery, ethtool, snmpwalk, /sys, Prometheus or InfluxDB"
LONGEST_LINE = 1 << 12
_HEAD = re.compile(
    r"# Port (extended )?counters: Lid (\d{1,9})(?:[^p]*)port (\d{1,9})", re.IGNORECASE
)
_NAMED = re.compile(r"Port=(\d{1,9}) .*\bGUID=(0x\w+).*")
_VALUE = r"(?P<value>0x[0-9a-f]{1,16}|\d{1,20}|\d\.\d{1,20}e\+\d{1,2})"
_TIME = r"(?P<time>\d{9,19}(?:\.\d{1,9})?)"
_FORMS = [re.compile(re.sub(r"\bV\b", lambda _: _VALUE, re.sub(r"\bT\b", lambda _: _TIME, form)))
          for form in SAMPLES]  # fmt: skip
_TAG = re.compile(r"[, ]([^,= ]+)=((?:\\.|[^, \\])+)")
_RATE = re.compile(r"([A-Za-z][\w.-]*?)\s*:\s*(\d[\d.,]*\s*[kKMGT]?i?[Bb](?:it|yte)?s?(?:ps|/s).*)")
_STAMPED = re.compile(r"\[([^\]]+)\](?: \((\S+)\))?.*")
_SAYS = re.compile(rf"({'|'.join(LINES)})(?: | *: )(\S+)")
_PORT = re.compile(
    r"(?:NIC statistics for |\d+: )?([\w.@/-]+)(?::|: (?:flags=|<).*| is (?:up|down|admin).*)"
)
_COLUMNS = re.compile(r"(?:([RT]X): +)?([A-Z]\w*(?: +[A-Z]\w*){3,}|[a-z]\w*(?: +[a-z]\w*){3,})")
_SERIES, _RANGED = re.compile(r"(\w*\{.*\}) =>"), re.compile(rf"{_VALUE} @\[{_TIME}\]")
_HOW = "while sleep 1; do date +%s.%N; perfquery -x LID PORT; done"


class _Sample(NamedTuple):
    """A value in a line: labels (none if lines before name the port), name, value and time."""

    labels: dict[str, str]
    name: str
    value: str
    time: str | None = None


def knows(path: Path, head: bytes) -> bool:
    """Whether this is output of such a program: perfquery, or lines of counters that are known."""
    if b"counters: Lid" in head:
        return True
    lines = [line.strip() for line in head.decode("utf-8", errors="replace").split("\n")[:400]]
    state, found = _State(path), list[_Sample]()
    for line in lines:
        found += every if (every := state.samples(line)) or state.takes(line) else ()
    rates = [rate[1] for line in lines if (rate := _RATE.fullmatch(line))]
    is_counter = any(meaning_with(one.labels, one.name) for one in found)
    return len(found) + len(rates) > 1 and (is_counter or any(map(meaning_of, rates)))


def read(path: Path, options: Options) -> Readings:
    """Read one file.

    Raises
    ------
    UserError : an answer has no time before it, rates, or counters of 32 bits.
    """
    samples, state = Samples(options, has_changes_only=False), _State(path)
    with Source(path).text() as stream:
        while line := stream.readline(LONGEST_LINE):
            state.number, line = state.number + 1, line.strip()
            every = state.samples(line)
            for one in every:
                moment = moment_of(one.time, options.time_unit) if one.time else state.time_ns
                if moment is None and meaning_with(one.labels, one.name):
                    what, where = "no time before this answer", f"{path}:{state.number}"
                    raise UserError(Problem(what, where, f"write one: {_HOW}"))
                if one.name in ("ifName", "ifDescr"):
                    samples.aliases.setdefault(one.labels["port"], one.value)
                elif state.is_lost(one):
                    samples.counts["values after a head that is lost"] += 1
                else:
                    samples.add(state.at(one.labels), one.name, moment or -1, one.value)
            if not every and not state.takes(line):
                _refuse_rate(line, f"{path}:{state.number}")
                samples.counts["lines that are no counter"] += 1
    return samples.readings(str(path))


class _State:
    """What the lines before say: the time, the device and the port of the next values."""

    def __init__(self, path: Path) -> None:
        self.path, self.number = path, 0
        self.file = {"file": path.name.partition(".")[0]}
        self.time_ns: int | None = None
        self.device: dict[str, str] = {}
        self.labels = {"port": self.file["file"]}
        self.seen: set[str] | None = None
        self.columns: tuple[str, list[str]] = ("", [])
        self.series = ""

    def samples(self, line: str) -> list[_Sample]:
        """The samples in a line, also in a row below columns, or in one of a series above."""
        (way, columns), row = self.columns, line.split()
        if self.series and (found := _RANGED.fullmatch(line)):
            name, labels = labelled(self.series)
            return [_Sample(labels, name, found["value"], found["time"])]
        if len(row) != len(columns) or not row:
            return [*_samples_of(line)]
        labels = {} if way else {"port": row[0]}
        named = zip((f"{way} {HEADS.get(name, name)}" for name in columns), row, strict=True)
        return [_Sample(labels, *one) for one in named if meaning_of(one[0]) and one[1].isdecimal()]

    def at(self, labels: dict[str, str]) -> dict[str, str]:
        """The labels of a value, by its own and those before."""
        own = (self.device or self.file) if labels else self.device
        return {**own, **(labels or self.labels)}

    def is_lost(self, one: _Sample) -> bool:
        """Whether a value is of a port whose head is lost: a head has each counter once."""
        if self.seen is None or one.labels:
            return False
        is_lost = one.name in self.seen or "" in self.seen
        self.seen.add("" if is_lost else one.name)
        return is_lost

    def takes(self, line: str) -> bool:
        """Remember what a line says that has no value."""
        stamped, sets = _STAMPED.fullmatch(line), _SAYS.fullmatch(line)
        text = stamped[1] if stamped else sets[2] if sets and LINES[sets[1]] == "time" else line
        if len(text) > 8 and (moment := moment_of(text)) is not None:
            self.time_ns = moment
            self.device = {"source": stamped[2]} if stamped and stamped[2] else self.device
            if self.seen is not None:
                self.seen.add("")
        elif sets and LINES[sets[1]] == "port":
            self.labels = {**(self.device or self.file), "port": sets[2]}
        elif sets:
            self.device = {LINES[sets[1]]: sets[2]}
        elif head := _HEAD.match(line):
            _check(head, f"{self.path}:{self.number}")
            self.labels, self.seen = {"port": f"lid{head[2]}/{head[3]}"}, set()
        elif named := _NAMED.fullmatch(line):
            self.labels, self.seen = {"guid": named[2], "port": named[1]}, set()
        elif series := _SERIES.fullmatch(line):
            self.series = series[1]
        elif (found := _COLUMNS.fullmatch(line)) and any(
            meaning_of(f"{found[1] or ''} {HEADS.get(name, name)}") for name in found[2].split()
        ):
            self.columns = (found[1] or "", found[2].split())
        elif named := _PORT.fullmatch(line):
            self.labels, self.seen = {**self.file, "port": named[1]}, None
        else:
            return not line or line.startswith(("#", "CounterSelect", "NIC statistics"))
        return True


def _samples_of(line: str) -> Iterator[_Sample]:
    """The samples in a line, of the first form that it has."""
    matches = (form.fullmatch(line) for form in _FORMS if not _SAYS.fullmatch(line))
    found = next((match.groupdict() for match in matches if match), None)
    if found is None:
        return
    name, labels = found.get("name", ""), dict(_TAG.findall(found.get("tags", "")))
    if "way" in found:
        name = f"{found['way']} bytes"
    elif "series" in found:
        name, labels = labelled(found["series"])
    elif "dotted" in found:
        name, labels = of_path(found["dotted"])
    elif "path" in found:
        labels = {"port": next(iter(PATH_KEY.findall(found["path"])), port_above(found["path"]))}
    elif "port" in found:
        labels = {"port": found["port"]}
        name = OIDS.get(name.replace("iso", ".1", 1).strip("."), name)
    fields = re.findall(r"([^=,]+)=([^,]+)", found.get("fields", ""))
    for of_field, value in fields or [(name, found["value"])]:
        number = str(int(value, 16)) if value[:2] == "0x" else value.rstrip("iu")
        yield _Sample(labels, of_field.strip(), number, found.get("time"))


def _refuse_rate(line: str, where: str) -> None:
    found = _RATE.fullmatch(line)
    if found and meaning_of(found[1]) and is_rate(found[2]):
        raise UserError(Problem(f"{line[:80]!r}: rates, and no counters", where, WHY_NO_RATES))


def _check(head: re.Match[str], where: str) -> None:
    if not head[1]:
        what = "counters of 32 bits, which stop at 4,294,967,295"
        raise UserError(Problem(what, where, "ask for those of 64 bits: perfquery -x"))
