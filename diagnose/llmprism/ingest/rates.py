"""Sampling rates of exporters: one packet in how many a record counts.

A record says it itself, or names its sampler or its interfaces, and an options record gives the
rate of that sampler or interface, or of the whole exporter. Options are repeated now and then:
the last ones before a record hold for it, and for records before the first options, those.

A rate is an interval (one packet in N), packets taken and left out in turn, or a size and a
population (n of N at random; RFC 5477, 8.2).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from llmprism.ingest.bounds import as_int64
from llmprism.ingest.exports import Records, Scope
from llmprism.ingest.templates import Columns
from llmprism.io.notes import Notes
from llmprism.numerics.arrays import Bools, Floats, Ints

LATE = "sampling rates came after records that they hold for"
UNKNOWN = "records name samplers whose rates are not announced: their sizes are not scaled"
AMBIGUOUS = "records name no sampler, and their exporter has several: the largest rate is taken"
_SAMPLERS = ("48", "302")
_NAMED = {"48": "sampler", "302": "sampler", "10": "interface", "14": "interface"}
_LARGEST_RATE = 2**31 - 1

Key = tuple[Scope, str, int]
"""Of whom a rate is: of the sampler, the interface, or the whole ("", 0) of an exporter."""


@dataclass
class Rates:
    """Rates that the options of a file announce, in the order of its datagrams."""

    _announced: dict[Key, tuple[list[int], list[int]]] = field(default_factory=dict)
    _scopes: dict[Scope, set[Key]] = field(default_factory=dict)

    def learn(self, options: Records) -> None:
        """Keep the rates of options records."""
        rates = _of_columns(options.columns, options.count)
        named = [name for name in _NAMED if name in options.columns]
        for row in np.flatnonzero(rates):
            key: Key = (options.scope, "", 0)
            if named:
                key = (options.scope, _NAMED[named[0]], int(options.columns[named[0]][row]))
            numbers, announced = self._announced.setdefault(key, ([], []))
            if not announced or announced[-1] != rates[row]:
                numbers.append(options.moment.number)
                announced.append(int(rates[row]))
            self._scopes.setdefault(options.scope, set()).add(key)

    def of(self, records: Records, notes: Notes) -> Ints:
        """Return the rate of each record, shape (records,)."""
        rates = _of_columns(records.columns, records.count)
        for scope in self._scopes_of(records.scope):
            for name in (one for one in _NAMED if one in records.columns):
                self._fill(rates, records, scope, name, notes)
            whole = self._at((scope, "", 0), records.moment.number, notes)
            rates[rates == 0] = whole
            if not rates.all():
                rates[rates == 0] = self._only(scope, rates == 0, records, notes)
        return np.maximum(rates, 1)

    def _scopes_of(self, scope: Scope) -> Iterator[Scope]:
        """Yield whose rates hold for records: those of their source id, or of another one."""
        exporter, version, _ = scope
        if scope in self._scopes:
            yield scope
        elif exporter:
            yield from (one for one in self._scopes if one[:2] == (exporter, version))

    def _fill(self, rates: Ints, records: Records, scope: Scope, name: str, notes: Notes) -> None:
        """Set the rates of records that name a known sampler or interface."""
        column = records.columns[name]
        for value in np.unique(column[rates == 0]).tolist():
            rate = self._at((scope, _NAMED[name], value), records.moment.number, notes)
            rates[(rates == 0) & (column == value)] = rate

    def _at(self, key: Key, number: int, notes: Notes) -> int:
        """Return a rate as it was at a datagram; 0 if it was never announced."""
        numbers, announced = self._announced.get(key, ([], []))
        if not announced:
            return 0
        place = bisect_right(numbers, number) - 1
        if place < 0:
            notes.remark(LATE)
        return announced[max(place, 0)]

    def _only(self, scope: Scope, unknown: Bools, records: Records, notes: Notes) -> int:
        """Return the rate of records for which none was announced: of the only sampler there is."""
        columns = [records.columns[name] for name in _SAMPLERS if name in records.columns]
        if columns:
            if any(column[unknown].any() for column in columns):  # 0 names none
                notes.remark(UNKNOWN)
            return 1
        keys = self._scopes[scope]
        found = {self._at(key, records.moment.number, notes) for key in keys}
        if len(found) > 1:
            notes.remark(AMBIGUOUS)
        return max(found)


def _of_columns(columns: Columns, count: int) -> Ints:
    """Return the rates that records state; 0 where they state none."""
    rates = np.zeros(count, dtype=np.int64)
    for whole, part in _ratios(columns, count):
        states = (rates == 0) & (whole > 0) & (part > 0)
        stated = np.rint(whole[states] / part[states])
        rates[states] = np.clip(stated, 1, _LARGEST_RATE).astype(np.int64)
    return rates


def _ratios(columns: Columns, count: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield packets that passed, and how many of these were counted, for each way to state them."""
    if "310" in columns:
        yield _number(columns, "310", count), _number(columns, "309", count)
    for name in ("34", "50"):
        if name in columns:
            yield _number(columns, name, count), np.ones(count)
    if "305" in columns:
        taken = _number(columns, "305", count)
        is_interval = "306" not in columns
        left = _number(columns, "306", count)
        yield taken + left, np.ones(count) if is_interval else taken


def _number(columns: Columns, name: str, count: int) -> Floats:
    if name not in columns:
        return np.zeros(count)
    return as_int64(columns[name])[0].astype(np.float64)
