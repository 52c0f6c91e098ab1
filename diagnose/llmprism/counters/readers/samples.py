"""Samples: one value of one counter, with the labels that its exporter gave it.

Formats without rows (messages, answers of Prometheus, output of programs) are read as samples. A
port is found by its labels, a column by the counter's name; what comes apart is put together here:
both directions of a port, at the times of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llmprism.counters.names import WALKED, Meaning, meaning_of, plain, refuse_rates
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import COLUMNS, IN, OUT, SWITCH, PortReadings, Readings, Side
from llmprism.ingest import bounds
from llmprism.numerics.arrays import Ints
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, real, whole

LARGEST = 2**64 - 1
WITH_PORT = re.compile(r"([^:]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
"""A host and the TCP port of its exporter."""
PATH_KEY = re.compile(r"\[(?:name|ifname|port)=([^\]]+)\]")
"""The port in a path of gNMI."""
HOW = (
    "export in-octets and out-octets, ifHCInOctets and ifHCOutOctets, or portrcvdata and "
    "portxmitdata; or write a table, a row a reading: time, port, in_bytes, out_bytes"
)
NO_NUMBER = "values that are no whole number"
NO_TIME = "values without a time"
SWITCH_LABELS, PORT_LABELS = WALKED["switches"], WALKED["ports"]
"""Labels of the device of a port, and of a port; the surest first."""
LABELS = {plain(name): name for name in ("address", *SWITCH_LABELS, *PORT_LABELS)}
"""Each label by its name without case and separators."""


@dataclass
class Samples:
    """Takes samples in any order, and gives the readings of all ports.

    ``aliases`` has names of ports that only an index names; ``file`` names the device of a port
    that no label has. An exporter that sends changes only leaves a counter out that did not change;
    others leave it out if it is lost. ``form`` is what the exporter says of it.
    """

    options: Options
    has_changes_only: bool = True
    file: str = ""
    form: Any = None
    counts: Counter[str] = field(default_factory=Counter)
    aliases: dict[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, ...], dict[Meaning, tuple[list[int], list[int]]]] = field(
        default_factory=dict
    )
    _names: dict[str, None] = field(default_factory=dict)

    def add(self, labels: Mapping[str, Any], name: str, time_ns: int, value: object) -> None:
        """Take one value; what is none is counted."""
        self.add_series(labels, name, [(time_ns, value)])

    def add_series(
        self, labels: Mapping[str, Any], name: str, pairs: Iterable[tuple[int, object]]
    ) -> None:
        """Take the values of one counter at several times [ns]."""
        at_switch = {"switch", "local_name", "local_guid", "node_id_str"} & labels.keys()
        side = self.options.side or (SWITCH if at_switch else None)
        meaning = meaning_with(labels, name, side)
        self._names[name] = None
        if meaning is None:
            self.counts["values of other counters"] += sum(1 for _ in pairs)
            return
        if self.file and not labels.keys() & {*SWITCH_LABELS, "address"}:
            labels = {**labels, "file": self.file}
        series = self._known.setdefault(names_of(labels), {})
        times, values = series.setdefault(meaning, ([], []))
        for time_ns, value in pairs:
            number = whole_number(value)
            if number is None:
                self.counts[NO_NUMBER] += 1
            elif not 0 <= time_ns <= bounds.LARGEST:
                self.counts[NO_TIME] += 1
            else:
                times.append(time_ns)
                values.append(number)

    def readings(self, where: str) -> Readings:
        """The readings of each port and each of its counters of bytes.

        Raises
        ------
        UserError : there is no counter of bytes.
        """
        ports = []
        for names, series in self._known.items():
            families = dict.fromkeys(one.family for one in series if one.column in (IN, OUT))
            known = [name for one in names if (name := self.aliases.get(one.rpartition("/")[2]))]
            found = [
                _of_family((*names, *known), family, series, self.has_changes_only)
                for family in families
            ]
            ports += [port for port in found if port is not None]
            self.counts["ports with one direction only"] += bool(families) and not any(found)
        if not ports:
            columns = {one.column for series in self._known.values() for one in series}
            if not columns & {IN, OUT}:
                refuse_rates(self._names, where)
            elif self.counts[NO_TIME]:
                what = "no counter has a time"
                raise UserError(Problem(what, where, "write one beside each reading"))
            shown = ", ".join([*self._names][:5]) or "nothing"
            what = f"no counters of bytes in both directions (it has {shown})"
            raise UserError(Problem(what, where, HOW))
        return Readings(self.form, ports, self.counts)


def meaning_with(labels: Mapping[str, Any], name: str, side: Side | None = None) -> Meaning | None:
    """What a counter's name says, or with the direction among its labels."""
    return meaning_of(name, side) or meaning_of(f"{name} {labels.get('direction')}", side)


def whole_number(value: object) -> int | None:
    """A count of 64 bits from JSON or from text; None if it is none.

    >>> whole_number("7"), whole_number("1e3"), whole_number("1.5"), whole_number(None)
    (7, 1000, None, None)
    """
    for read in (lambda one: one, lambda one: real(one, 0, LARGEST)):
        with suppress(OutsideError):
            return whole(read(value), 0, LARGEST)
    return None


def as_words(numbers: Sequence[int]) -> Ints:
    """Numbers below 2^64 as words of 64 bits; those from 2^63 on are negative ones.

    >>> as_words([5, 2**64 - 1]).tolist()
    [5, -1]
    """
    return np.array(numbers, np.uint64).view(np.int64)


def names_of(labels: Mapping[str, Any]) -> tuple[str, ...]:
    """All names of a port: its address, or ``switch/port`` by each label of its switch.

    The first name is that of the surest labels. A name with a TCP port is also one without.

    >>> names_of({"instance": "leaf1:161", "ifName": "Eth1"})
    ('leaf1:161/Eth1', 'leaf1/Eth1')
    """
    text = {LABELS.get(plain(key), key): str(value)[:256]
            for key, value in labels.items() if not key.startswith("__")}  # fmt: skip
    switches = [text[label] for label in SWITCH_LABELS if text.get(label)] or [""]
    switches += [found[1] for one in switches if (found := WITH_PORT.fullmatch(one))]
    ports = [text[label] for label in PORT_LABELS if text.get(label)] or [""]
    switches += [text["device"]] if "device" in text and len(ports) > 1 else []
    names = ["/".join(filter(None, (s, p))) for p in ports for s in filter(None, switches)]
    alone = ports if switches == [text.get("file")] else ports[:1] if not names else []
    address = [text["address"]] if "address" in text else []
    return tuple(dict.fromkeys((*address, *names, *alone)))


def labelled(text: str) -> tuple[str, dict[str, str]]:
    """The name and the labels of a series, as Prometheus writes it.

    >>> labelled('up{job="a", instance="b"}'), labelled("up")
    (('up', {'job': 'a', 'instance': 'b'}), ('up', {}))
    """
    name, _, rest = text.partition("{")
    labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', rest))
    return name or labels.get("__name__", ""), labels


def of_path(path: str) -> tuple[str, dict[str, str]]:
    """The counter at the end of a path of Graphite, and its port, which is what comes before.

    >>> of_path("collectd.n1.interface-eth0.if_octets.rx")
    ('if_octets.rx', {'port': 'collectd.n1.interface-eth0'})
    """
    parts = path.split(".")
    ends = (k for k in range(len(parts) - 1, 0, -1) if meaning_of(" ".join(parts[k:])))
    end = next(ends, len(parts) - 1)
    return ".".join(parts[end:]), {"port": ".".join(parts[:end])}


def _of_family(
    names: tuple[str, ...],
    family: str,
    series: Mapping[Meaning, tuple[list[int], list[int]]],
    has_changes_only: bool,
) -> PortReadings | None:
    """The readings of one counter of bytes, with the first of the other counters of the port."""
    own = {one.column: one for one in series if one.family == family and one.column in (IN, OUT)}
    if len(own) < 2 or not all(series[one][0] for one in own.values()):
        return None
    chosen = {one.column: one for one in reversed([*series]) if series[one][0]} | own
    arrays = {
        column: (np.array(series[chosen[column]][0], np.int64),
                 as_words(series[chosen[column]][1]))
        for column in COLUMNS
        if column in chosen
    }  # fmt: skip
    first = max(int(times.min()) for times, _ in arrays.values())
    times = _times([times for times, _ in arrays.values()])
    times = times[times >= first]
    for column in () if has_changes_only else (IN, OUT):
        times = times[np.isin(times, arrays[column][0])]
    values = {name: _held(times, *columns) for name, columns in arrays.items()}
    unit = own[IN].unit
    return PortReadings(names[0], times, values, family, unit, aliases=names[1:])


def _times(every: list[Ints]) -> Ints:
    """The times of all columns; in the order of the exporter if that is one for all of them."""
    if all(np.array_equal(every[0], one) for one in every[1:]):
        return every[0]
    return np.unique(np.concatenate(every))


def _held(times: Ints, known: Ints, values: Ints) -> Ints:
    """The last value known at each time: an exporter may send only what changed."""
    if times.size <= known.size and np.array_equal(times, known[-times.size :]):
        return values[values.size - times.size :]
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], times, side="right") - 1
    return values[order][np.maximum(place, 0)]
