"""When each rank moved what in each step: first and last moments of its traffic.

A rank is known by the address of its NIC. It has finished a collective when it has received
everything and need not keep what it sends any more. With RDMA (RoCE is UDP) the NIC reads it from
the rank's memory. With TCP it leaves a buffer of the host while the rank goes on. So there the last
received record ends a rank's step, if none was lost, or the moment when no more is left to send
than the buffer holds.

In every step a rank takes part in the collectives of its data-parallel group, so the members of a
group end a step together, each with a lag of its own that hardly changes. That repairs what
telemetry breaks: where a rank's last record of a step is missing, its end is the group's median end
plus the rank's usual lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups
from llmprism.numerics.missing import TO_SIGMA, nanmedian

MISSING = np.iinfo(np.int64).min
EARLY = 8.0  # deviations from a rank's usual lag beyond which its last record is taken as lost
LEAST_EARLY = 0.005  # ... and at least this share of a step
UDP = 17  # number of the protocol in IP headers
BUFFER = 4_100_000  # bytes: Linux allows a socket 4 MiB (tcp_wmem), of which little is its own
WRITABLE = (4 << 20) * 2 // 3  # what is left in a full one when Linux lets the sender write again
HELD = 3 << 20  # what is left of a message that a buffer holds when it is written: measured
REST_NS = 20_000_000  # between messages: far longer than TCP waits within one

Moved = tuple[Traffic, Codes]
"""Traffic, and the step of each of its records (-1: none)."""


@dataclass(frozen=True)
class Moments:
    """First start and last end of one kind of traffic, by endpoint of the job and step [ns].

    Attributes
    ----------
    start_ns, end_ns : MISSING where nothing moved, shape (endpoints, steps).
    sent_ns : first start of what the endpoint itself sent.
    """

    start_ns: Ints
    end_ns: Ints
    sent_ns: Ints


def moments_of(
    flows: FlowTable, own: Sequence[Moved], endpoints: Codes, count: int, collectives: bool = True
) -> Moments:
    """Moments of some traffic; of ``collectives``, or of single messages."""
    shape = (endpoints.size, count)
    start, sent = np.full((2, *shape), np.iinfo(np.int64).max)
    last, needed = np.full((2, *shape), MISSING)  # of all records, and of those a rank waits for
    received = np.zeros(shape)
    place = np.zeros(len(flows.addresses), np.int64)
    place[endpoints] = np.arange(endpoints.size) * count
    for traffic, step in own:
        known = step >= 0
        rows, sizes = traffic.row[known], traffic.size[known]
        begins, ends = traffic.start_ns[known], traffic.end_ns[known]
        src, dst = (place[side[rows]] + step[known] for side in (flows.src, flows.dst))
        np.minimum.at(sent.ravel(), src, begins)
        for cell in (src, dst):
            np.minimum.at(start.ravel(), cell, begins)
            np.maximum.at(last.ravel(), cell, ends)
        kept = _from_memory(flows, rows)
        np.maximum.at(needed.ravel(), src[kept], ends[kept])
        line = (src * place.size + flows.dst[rows])[~kept]
        full, at_ns = _handed_over(line, begins[~kept], ends[~kept], sizes[~kept])
        np.maximum.at(needed.ravel(), full // place.size, at_ns)
        np.maximum.at(needed.ravel(), dst, ends)
        np.add.at(received.ravel(), dst, sizes)
    start[start == np.iinfo(np.int64).max] = MISSING
    sent[sent == np.iinfo(np.int64).max] = MISSING
    end = np.where(_all_received(received), needed, last) if collectives else last
    return Moments(start, end, sent)


def _handed_over(line: Ints, begin_ns: Ints, end_ns: Ints, size: Ints) -> tuple[Ints, Ints]:
    """When no more was left to send than a buffer holds, on each line that sent as much.

    A rank that sends a larger message than the buffer waits for the buffer to empty by a third,
    and writes the rest. ``line`` numbers the line of each record, in a step. Records that hardly
    rest are one message, and their bytes leave evenly. Returns the lines, and the times [ns].
    """
    lines, number = np.unique(line, return_inverse=True)
    order = order_in_groups(number, end_ns)
    number, size, begin_ns, end_ns = number[order], size[order], begin_ns[order], end_ns[order]
    sent = np.cumsum(size)
    of_line = np.cumsum(np.bincount(number))  # records until the end of each line
    left = sent[of_line - 1][number] - sent  # after each record
    rests = np.zeros(number.size, np.bool_)
    rests[1:] = (begin_ns[1:] - end_ns[:-1] > REST_NS) & (number[1:] == number[:-1])
    first = np.concatenate(([0], of_line[:-1]))[: lines.size]
    opening = np.maximum.reduceat(np.where(rests, np.arange(rests.size), -1), first)
    opening = np.maximum(opening, first)
    held = np.where((left + size)[opening] > BUFFER, WRITABLE, HELD)[number]
    last = (left < held) & (left + size >= held)
    share = ((held - left) / size)[last]
    lasts_ns = (end_ns - begin_ns)[last]
    return lines[number[last]], end_ns[last] - np.rint(share * lasts_ns).astype(np.int64)


def _from_memory(flows: FlowTable, rows: Codes) -> Bools:
    """Which records are of RDMA, as far as records tell: their protocol is UDP."""
    protocol = flows.optional.get("protocol")
    if protocol is None:
        return np.zeros(rows.size, np.bool_)
    udp: Bools = protocol[rows] == UDP
    return udp


def _all_received(volume: Floats) -> Bools:
    """In which steps each rank received as much as usual, shape (endpoints, steps).

    In none where this varies, as under sampling: then the last record that a rank received may be
    any.
    """
    usual = np.median(volume, axis=1, keepdims=True)
    alike = (volume > 0) & (np.abs(volume - usual) <= EQUAL * usual)
    mostly: Bools = 2 * alike.sum(axis=1, keepdims=True) > volume.shape[1]
    return alike & mostly


def period_of(moments: dict[str, Moments]) -> float:
    """Median length of a step [ns]."""
    for kind in ("dp", "pp"):
        end = moments[kind].end_ns
        if end.size and (end != MISSING).any() and end.shape[1] > 1:
            latest = end.max(axis=0)
            known = latest[latest != MISSING]
            if known.size > 1:
                return float(np.median(np.diff(known)))
    return 0.0


def repaired(moments: Moments, group: Ints, period: float) -> Moments:
    """Fill in ends that are missing or far too early, from the rest of the group."""
    end = moments.end_ns.copy()
    for one in np.unique(group[group >= 0]).tolist():
        rows = np.flatnonzero(group == one)
        end[rows] = _group_ends(end[rows], period)
    return Moments(moments.start_ns, end, moments.sent_ns)


def _group_ends(end: Ints, period: float) -> Ints:
    """Ends of a group, shape (members, steps), with each member's usual lag where it fails."""
    origin = int(end[end != MISSING].min(initial=np.iinfo(np.int64).max))
    known = end != MISSING
    if not known.any():
        return end
    offset: Floats = np.where(known, (end - origin).astype(np.float64), np.nan)
    with np.errstate(all="ignore"):
        middle = nanmedian(offset, axis=0)
        lag = nanmedian(offset - middle, axis=1)
        middle = nanmedian(offset - lag[:, None], axis=0)
        away = offset - middle - lag[:, None]
        spread = TO_SIGMA * nanmedian(np.abs(away), axis=1)
    bar = np.maximum(EARLY * spread, LEAST_EARLY * period)
    wrong = ~known | (away < -bar[:, None])
    guess = middle[None, :] + lag[:, None]
    wrong &= np.isfinite(guess)
    return np.where(wrong, np.rint(np.nan_to_num(guess)).astype(np.int64) + origin, end)
