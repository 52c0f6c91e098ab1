"""Connections: the unit of which everything else is made, and which of them carry data.

A *connection* is one direction of one 5-tuple (of one pair of addresses, where the exporter
gives no ports). A communication library uses a connection for one purpose, so its records are
alike, while a pair of addresses may carry several kinds of traffic.

Not every record is training traffic. Acknowledgements, handshakes, control messages and
services are distinguished by volume and size, never by address:

- a record is *small* if it holds less than 1/64 of what a typical record of its connection
  holds (the record in which the connection's median byte travels), and its packets, where they are
  counted, less than half of what those of the connection do: a transfer that waits for its receiver
  leaves short records of full packets;
- a connection is an *answer* if its typical record is 1/32 or less of that of the traffic the
  other way between the same two addresses and it carries less than 5 % as much: an
  acknowledgement of 52 bytes for every second packet of 1,448 bytes is 1.8 %. Its packets are short
  or, where the exporter does not count them, it begins while what it answers moves. Activations
  beside a far larger collective of the same two ranks are no answer to it;
- a connection is *light* if it carries less than 1/10,000 of what the busiest connection of
  either of its ends carries, or its typical record is shorter than a page (4,096 bytes);
- a connection is *minor* if it carries less than 1/100 of the same. Activations may be minor
  beside gradients, and so are logs, but only training repeats itself in every step.

What is set aside here is counted and reported; it is never diagnosed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.io.screening import has_ports
from llmprism.methods.prism.parameters import QUARTER, SMALL
from llmprism.methods.prism.records.sampled import sample_bytes
from llmprism.numerics.arrays import (
    INTS,
    Bools,
    Codes,
    Floats,
    Grouped,
    Ints,
    grouped,
    order_in_groups,
)
from prism_common.compiled import compiled

LIGHTER, FULL = 64, 0.5  # of small records, as above; of the bytes of a packet
ANSWER_SIZE, ANSWER_SHARE = 32, 0.05  # of answers, as above
SHORT_BYTES = 256  # of a packet: more than an acknowledgement with all options has
ANSWERED = 64  # connections that one may answer: those of most bytes between its ends
CLOCKS_NS = 1_000_000  # by which clocks of exporters on one network differ at most, usually
ONE_VIEW = ("ingress", "egress")  # observation points that no transfer passes twice
AT_ONCE_NS = 20_000  # apart: latency of a path, by which two views of one transfer may differ
LASTING = 4  # times that, and ticks of the clock: records that show whether two are one transfer
OFFSET = 0.5  # of its length: two views of one transfer begin as near; clocks of exporters differ
LIGHT_SHARE, LIGHT_BYTES = 1e-4, 4096  # of light connections, as above
MINOR_SHARE = 0.01  # of minor connections, as above


@dataclass(frozen=True)
class Connections:
    """Every directed connection, in order of its first record.

    Attributes
    ----------
    src, dst : endpoint codes, shape (connections,).
    total_bytes, typical_bytes, records : traffic, its byte-weighted median record, their number.
    first_ns, last_ns : first start and last end [ns].
    answer : whether it only answers the traffic the other way.
    light : whether it carries too little to be training traffic.
    minor : whether it carries little beside other connections of its ends.
    reply : the connection the other way with the same ports exchanged; -1 if there is none.
    by : rows of each connection, in order of time.
    of_row : connection of each record, shape (rows,).
    size : bytes of each record above the transport header where known, shape (rows,).
    small : whether a record is small for its connection, shape (rows,).
    sample_bytes : bytes that one sampled packet stands for; 0 if every packet was observed.
    to_unseen : whether a connection leads to an endpoint whose traffic no exporter sees; None if
        none does.
    """

    src: Codes
    dst: Codes
    total_bytes: Ints
    typical_bytes: Ints
    records: Ints
    first_ns: Ints
    last_ns: Ints
    answer: Bools
    light: Bools
    minor: Bools
    reply: Codes
    by: Grouped
    of_row: Codes
    size: Ints
    small: Bools
    sample_bytes: float = 0.0
    to_unseen: Bools | None = None

    def __len__(self) -> int:
        return int(self.src.size)

    @property
    def carries(self) -> Bools:
        """Whether each connection may carry training data, shape (connections,)."""
        return ~(self.answer | self.light)


def carry_within(connections: Connections, endpoints: Codes) -> Bools:
    """Which connections carry data from one of the ``endpoints`` to another one."""
    inside: Bools = np.isin(connections.src, endpoints) & np.isin(connections.dst, endpoints)
    return inside & connections.carries


def find_connections(flows: FlowTable) -> Connections:
    """Group the records of ``flows`` into connections."""
    of_row = _codes(flows)
    size = _payload(flows)
    by = grouped(of_row, int(of_row.max(initial=-1)) + 1)
    twice = _seen_twice(flows, by, size)
    opening = by.order[by.offsets[:-1]]
    src, dst = flows.src[opening], flows.dst[opening]
    total, typical, last = _volumes(size, flows.end_ns, by)
    answer = _answers(src, dst, total, typical)
    answer[_own_traffic(flows, by, np.flatnonzero(answer), (src, dst, total, typical))] = False
    share = _share_of_busiest(src, dst, total, len(flows.addresses))
    light = (share < LIGHT_SHARE) | (typical < LIGHT_BYTES)
    return Connections(
        src, dst, total, typical, by.sizes, flows.start_ns[opening], last, answer, light,
        share < MINOR_SHARE, _replies(flows, opening), by, of_row, size,
        twice | _small(flows, of_row, size, typical), sample_bytes(flows),
    )  # fmt: skip


def _small(flows: FlowTable, of_row: Codes, size: Ints, typical: Ints) -> Bools:
    """Whether each record is small for its connection."""
    small: Bools = size * LIGHTER < typical[of_row]
    packets = flows.optional.get("packets")
    rows = np.flatnonzero(small)
    if packets is None or not rows.size or (packets[rows] <= 0).any():
        return small
    bytes_of, packets_of = (np.bincount(of_row, each) for each in (flows.bytes, packets))
    full = np.maximum(FULL * bytes_of / np.maximum(packets_of, 1), SHORT_BYTES)[of_row[rows]]
    small[rows] = flows.bytes[rows] < full * packets[rows]
    return small


def _codes(flows: FlowTable) -> Codes:
    """Number the connection of each record, in order of first appearance."""
    named = _names(len(flows.addresses), flows.src, flows.dst, _ports(flows))
    codes: Codes = pd.factorize(named)[0].astype(np.int32)
    return codes


def _ports(flows: FlowTable) -> tuple[Ints, ...]:
    """Source and destination ports of each record, if the exporter gives both."""
    names = ("src_port", "dst_port")
    given = all(name in flows.optional for name in names)
    return tuple(flows.optional[name].astype(np.int64) & 0xFFFF for name in names if given)


def _names(nodes: int, src: Codes, dst: Codes, ports: tuple[Ints, ...]) -> Ints:
    """One number for each different source, destination and ports."""
    name = src.astype(np.int64) * nodes + dst
    for port in ports:
        name = (name << 16) | port
    return name


def _replies(flows: FlowTable, opening: Codes) -> Codes:
    """For each connection, begun by record ``opening``, the one that has its ports exchanged."""
    nodes, src, dst = len(flows.addresses), flows.src[opening], flows.dst[opening]
    ports = tuple(port[opening] for port in _ports(flows))
    forth = pd.Index(_names(nodes, src, dst, ports))
    back = pd.Index(_names(nodes, dst, src, ports[::-1]))
    replies: Codes = forth.get_indexer(back).astype(np.int32)
    return replies


def _seen_twice(flows: FlowTable, by: Grouped, size: Ints) -> Bools:
    """Records that repeat the one before: the same bytes at the same time, seen elsewhere.

    Exporters on both sides of a transfer each make a record of it. Believed if a good part of all
    records has such a repetition; then every second one is marked. Short messages that follow each
    other at once look the same, so that only records that last tell, if there are any. An exporter
    has one entry for each set of addresses and ports, so two that last together are from two
    exporters, however few. Nothing is seen twice if the exporters say that they look at one side.
    """
    if flows.meta.get("observation_point") in ONE_VIEW:
        return np.zeros(size.size, np.bool_)
    marks = _repetitions(flows.start_ns, flows.end_ns, size, by.order, by.offsets)
    least_ns = LASTING * max(AT_ONCE_NS, clock_tick_ns(flows.start_ns, flows.end_ns))
    lasting = flows.durations_ns > least_ns
    telling = marks[lasting] if lasting.any() else marks
    if telling.size and telling.mean() > QUARTER:
        return marks
    return marks & lasting & has_ports(flows.optional)


@compiled
def _repetitions(start_ns: Ints, end_ns: Ints, size: Ints, order: Codes, offsets: Ints) -> Bools:
    """Whether a record overlaps one before it on the connection nearly whole, with equal size."""
    marks = np.zeros(order.size, np.bool_)
    for c in range(offsets.size - 1):
        last = -1
        for at in range(offsets[c], offsets[c + 1]):
            row = order[at]
            if last >= 0 and size[row] == size[last]:
                length = max(end_ns[row] - start_ns[row], end_ns[last] - start_ns[last], 1)
                late = start_ns[row] - start_ns[last]
                longer = abs(end_ns[row] - end_ns[last] - late)
                apart = late + abs(end_ns[row] - end_ns[last])
                if (longer < SMALL * length and late < OFFSET * length) or apart < AT_ONCE_NS:
                    marks[row] = True
                    last = -1
                    continue
            last = row
    return marks


def _payload(flows: FlowTable) -> Ints:
    """Bytes above the transport header where the exporter gives them for every record."""
    payload = flows.optional.get("payload")
    return flows.bytes if payload is None or (payload < 0).any() else payload


def _volumes(size: Ints, end_ns: Ints, by: Grouped) -> tuple[Ints, Ints, Ints]:
    """Bytes, byte-weighted median record and last end of each connection."""
    if by.order.size == 0:
        return INTS, INTS, INTS
    connection = by.codes
    own = size[by.order]
    own = own[order_in_groups(connection, own)]  # by size within each connection
    until = np.cumsum(own)
    before = np.append(0, until)[by.offsets]
    total = np.diff(before)
    beyond = np.flatnonzero(2 * (until - before[connection]) >= total[connection])
    typical = own[beyond[np.searchsorted(beyond, by.offsets[:-1])]]
    return total, typical, np.maximum.reduceat(end_ns[by.order], by.offsets[:-1])


def _answers(src: Codes, dst: Codes, total: Ints, typical: Ints) -> Bools:
    """Which connections only answer, by their total bytes and typical record; see above."""
    table = pd.DataFrame({"a": src, "b": dst, "total": total, "typical": typical})
    heaviest = table.sort_values("total").groupby(["a", "b"], sort=False).last()
    back = heaviest.reindex(pd.MultiIndex.from_arrays([dst, src])).fillna(0).to_numpy()
    less = total < ANSWER_SHARE * back[:, 0]
    smaller = typical * ANSWER_SIZE < back[:, 1]
    answers: Bools = less & smaller
    return answers


def _own_traffic(
    flows: FlowTable, by: Grouped, answers: Ints, about: tuple[Codes, Codes, Ints, Ints]
) -> Ints:
    """Those of the ``answers`` whose packets, or times, show that they answer nothing.

    ``about`` has source, destination, bytes and typical record of every connection.
    """
    src, dst, total, typical = about
    pair = src.astype(np.int64) * len(flows.addresses) + dst
    of_pair = np.lexsort((-total, pair))
    own = []
    for one in answers.tolist():
        rows = by.rows(one)
        packets = flows.optional["packets"][rows] if "packets" in flows.optional else rows[:0]
        if packets.size and (packets > 0).all():
            if flows.bytes[rows].sum() > SHORT_BYTES * packets.sum():
                own.append(one)
            continue
        code = int(dst[one]) * len(flows.addresses) + int(src[one])
        first, last = np.searchsorted(pair, (code, code + 1), sorter=of_pair)
        back = of_pair[first : min(first + ANSWERED, last)]
        back = back[typical[back] > ANSWER_SIZE * typical[one]]
        answered = back[ANSWER_SHARE * total[back] > total[one]]
        moving = np.concatenate([by.rows(number) for number in answered.tolist()])
        meanwhile = _begins_during(flows, rows, moving)
        if flows.bytes[rows[meanwhile]].sum() < SMALL * flows.bytes[rows].sum():
            own.append(one)
    return np.array(own, np.int64)


def _begins_during(flows: FlowTable, rows: Codes, moving: Codes) -> Bools:
    """Whether each of ``rows`` begins while some of ``moving`` last, or soon after."""
    moving = moving[np.argsort(flows.start_ns[moving], kind="stable")]
    starts = flows.start_ns[moving] - CLOCKS_NS
    soon_ns = (SMALL * flows.lengths_ns(moving)).astype(np.int64) + CLOCKS_NS
    until = np.maximum.accumulate(flows.end_ns[moving] + soon_ns)
    last = np.searchsorted(starts, flows.start_ns[rows], side="right") - 1
    during: Bools = (last >= 0) & (flows.start_ns[rows] <= until[np.maximum(last, 0)])
    return during


def _share_of_busiest(src: Codes, dst: Codes, total: Ints, nodes: int) -> Floats:
    """Bytes of each connection over those of the busiest one at either of its ends."""
    busiest = np.ones(nodes, np.int64)
    np.maximum.at(busiest, src, total)
    np.maximum.at(busiest, dst, total)
    share: Floats = total / np.maximum(busiest[src], busiest[dst])
    return share
