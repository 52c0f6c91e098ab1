"""What each operation shows: who waited how long in it, and what its transfer took.

All ranks of a communicator end a collective together. So the rank with the shortest time joined
last, and its time is that of the transfer. Others have waited for what theirs is longer by.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from llmprism.collectives.reading import Records
from llmprism.numerics.arrays import Bools, Floats, Grouped, Ints, grouped

US = 1000
"""Nanoseconds of a microsecond."""
SHORTEST_PAUSE = 0.1
"""Of the pauses between dumps: fewer are shorter than usual, such as that before the last dump."""


class Operations:
    """All rows, with who waited how long in each.

    Attributes
    ----------
    rows : of :class:`Records`, each field an array.
    calls, count : rows of collectives, one call after the other, and the rows of each call.
    waited_ns : of each row, what it takes longer than the shortest of its operation; of a receive,
        than a usual transfer [ns].
    late_ns : of each row, what the longest of its operation takes longer; 0 for messages [ns].
    transfer_ns : of each row, the shortest time of its operation, of a message at both ends [ns].
    origin_us : the first end.
    tick_ns : by how much ends may be wrong: the time between dumps, 0 for exact ones; infinite if
        it is unknown.
    """

    def __init__(self, records: Records) -> None:
        self.records, self.rows = records, records.rows
        rows = self.rows
        self.origin_us = int(rows["end_us"].min()) if len(rows) else 0
        exec_ns = rows["exec_us"].astype(np.float64) * US
        key = rows["communicator"].astype(np.int64) * (len(records.operations) or 1)
        self.series = key + rows["operation"]
        is_message = self.is_message = rows["peer"] >= 0
        self.transfer_ns, self.late_ns = exec_ns.copy(), np.zeros(len(rows))
        calls = np.flatnonzero(~is_message & (rows["number"] >= 0))
        order = self.calls = calls[np.lexsort((rows["number"][calls], self.series[calls]))]
        same = (np.diff(self.series[order]) == 0) & (np.diff(rows["number"][order]) == 0)
        first = np.flatnonzero(np.append(True, ~same)[: order.size])
        count = self.count = np.diff(np.append(first, order.size))
        if order.size:
            least = np.minimum.reduceat(exec_ns[order], first)
            most = np.maximum.reduceat(exec_ns[order], first)
            self.transfer_ns[order] = np.repeat(least, count)
            self.late_ns[order] = np.repeat(most, count) - exec_ns[order]
        for one in np.unique(rows["communicator"][is_message]).tolist():
            members = self.rows_of(one)
            members = members[is_message[members]]
            sends = rows["operation"][members] == self.code("send")
            usual = np.median(exec_ns[members[sends]]) if sends.any() else exec_ns[members].min()
            both = np.fmin(exec_ns[members], self._other_end_ns(members, sends, exec_ns))
            self.transfer_ns[members] = np.fmin(exec_ns[members], np.fmax(both, usual))
        self.waited_ns: Floats = exec_ns - self.transfer_ns

    def _other_end_ns(self, members: Ints, sends: Bools, exec_ns: Floats) -> Floats:
        """What each message took at its other end [ns]; NaN if records do not show that end.

        Between two places, messages have one order at both ends; with lost records it is unknown.
        """
        rows = self.rows[members]
        src, dst = (np.where(sends == at, rows["place"], rows["peer"]) for at in (True, False))
        pair = src.astype(np.int64) << 32 | dst
        order = np.lexsort((rows["number"], sends, pair))
        first = np.flatnonzero(np.diff(pair[order], prepend=-1))
        other = np.full(members.size, np.nan)
        for own in np.split(order, first[1:]):
            received, sent = own[~sends[own]], own[sends[own]]
            if received.size == sent.size:
                other[received], other[sent] = exec_ns[members[sent]], exec_ns[members[received]]
        return other

    def ends_ns(self, mine: Ints) -> Floats:
        """When operations of some rows end, after the first end of all [ns]."""
        return (self.rows["end_us"][mine] - self.origin_us).astype(np.float64) * US

    @cached_property
    def _by_communicator(self) -> Grouped:
        return grouped(self.rows["communicator"], len(self.records.communicators))

    def rows_of(self, communicator: int) -> Ints:
        """The places of the rows of one communicator, in their order."""
        return self._by_communicator.rows(communicator).astype(np.int64)

    def code(self, name: str) -> int:
        """The code of an operation; -1 if nobody recorded it."""
        names = [one.lower() for one in self.records.operations]
        return names.index(name) if name in names else -1

    @cached_property
    def tick_ns(self) -> float:
        """Dumps on an even pace are multiples of it apart; others rarely less than it."""
        if self.records.exact_ends or not len(self.rows):
            return 0.0
        process, communicator = self.rows["process"], self.rows["communicator"]
        own = (process == process[0]) & (communicator == communicator[0])
        apart = np.diff(np.unique(self.rows["end_us"][own]))
        if not apart.size:
            return np.inf
        even = int(np.gcd.reduce(apart))
        return float(even if even > 1 else np.quantile(apart, SHORTEST_PAUSE)) * US


def clock_offsets_ns(operations: Operations) -> dict[str, float]:
    """By how much the clock of each host is ahead of that of most others [ns]."""
    rows = operations.rows
    ends = operations.ends_ns(np.arange(len(rows)))
    hosts = sorted({process.host for process in operations.records.processes})
    code = {host: number for number, host in enumerate(hosts)}
    host = np.array([code[one.host] for one in operations.records.processes])[rows["process"]]
    offset = np.zeros(len(hosts))
    order = operations.calls
    if not order.size:
        return {}
    of_call = np.repeat(np.arange(operations.count.size), operations.count)
    for _ in range(8):
        corrected = ends[order] - offset[host[order]]
        mean = np.bincount(of_call, corrected) / np.bincount(of_call)
        apart = corrected - mean[of_call]
        offset += [float(np.median(apart[host[order] == one])) if (host[order] == one).any() else 0
                   for one in range(len(hosts))]  # fmt: skip
    return dict(zip(hosts, (offset - np.median(offset)).tolist(), strict=True))
