"""Messages of a pipeline, where records hold several of them, or lack some.

An exporter that bridges silences puts messages that follow each other closely into one record, in
some steps and not in others. So records are no measure of how far a rank came: their bytes are.
All messages of a connection have about the same size. Those of one record are taken to follow
each other evenly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import EQUAL, HALF, QUARTER
from llmprism.numerics.arrays import PART_BYTES, Bools, Codes, Floats, Ints, order_in_groups
from llmprism.numerics.missing import nanmedian

SMALLEST = 0.05  # quantile of the records of a connection that shows one message
BEHIND = 0.6  # of the bytes of the middle pipeline: what a pipeline that was stopped moved at most


@dataclass(frozen=True)
class Messages:
    """Messages in order of the records that hold them; arrays of equal length.

    Attributes
    ----------
    src, dst : codes of the endpoints.
    step : training step.
    begin_ns, end_ns : [ns].
    """

    src: Codes
    dst: Codes
    step: Ints | Codes
    begin_ns: Ints
    end_ns: Ints

    def rows(self, chosen: Ints | Bools) -> Messages:
        """Those that are ``chosen``, by number or by a mask."""
        return Messages(*(side[chosen] for side in vars(self).values()))


@dataclass(frozen=True)
class Sizes:
    """Bytes of a message of each pair of endpoints; ``pair`` is in order."""

    pair: Ints
    unit: Floats

    def of(self, pair: Ints) -> Floats:
        """Bytes of a message of each of ``pair``; infinite where nothing is known."""
        if not self.pair.size:
            return np.full(pair.shape, np.inf)
        place = np.minimum(np.searchsorted(self.pair, pair), self.pair.size - 1)
        found: Floats = np.where(self.pair[place] == pair, self.unit[place], np.inf)
        return found


def message_sizes(flows: FlowTable, rows: Ints | Codes, step: Ints | Codes, messages: int) -> Sizes:
    """How large messages are, from records of whole steps with ``messages`` each."""
    at, pair = pd.factorize(_pairs(flows, rows), sort=True)
    if not pair.size:
        return Sizes(pair, np.empty(0))
    steps = int(step.max()) + 1
    size = flows.bytes[rows].astype(np.float64)
    volume = np.bincount(at * steps + step, size, pair.size * steps).reshape(-1, steps)
    usual = nanmedian(np.where(volume > 0, volume, np.nan), axis=1) / max(messages, 1)
    order = order_in_groups(at, size)
    count = np.bincount(at)
    small = size[order][np.cumsum(count) - count + (SMALLEST * (count - 1)).astype(np.int64)]
    alike = np.bincount(at, size <= (1 + EQUAL) * small[at], pair.size) > HALF * count
    return Sizes(pair, np.where(alike, small, np.maximum(usual, small)))


def messages_of(flows: FlowTable, rows: Ints | Codes, step: Ints | Codes, sizes: Sizes) -> Messages:
    """The messages that ``rows`` hold."""
    parts = np.array_split(np.arange(rows.size), max(1, rows.nbytes // PART_BYTES))
    every = [vars(_messages_of(flows, rows[part], step[part], sizes)) for part in parts]
    return Messages(**{name: np.concatenate([one[name] for one in every]) for name in every[0]})


def _messages_of(
    flows: FlowTable, rows: Ints | Codes, step: Ints | Codes, sizes: Sizes
) -> Messages:
    share = flows.bytes[rows] / sizes.of(_pairs(flows, rows))
    held = np.maximum(np.rint(share), 1).astype(np.int64)
    if held.max(initial=1) == 1:
        ends, times = (flows.src[rows], flows.dst[rows]), (flows.start_ns[rows], flows.end_ns[rows])
        return Messages(*ends, step, *times)
    of = np.repeat(np.arange(rows.size), held)
    number = np.arange(of.size) - np.repeat(np.cumsum(held) - held, held)
    start, lasts = flows.start_ns[rows][of], flows.lengths_ns(rows)[of]
    begin, end = (start + lasts * (number + more) // held[of] for more in (0, 1))
    return Messages(flows.src[rows][of], flows.dst[rows][of], step[of], begin, end)


def _pairs(flows: FlowTable, rows: Ints | Codes) -> Ints:
    pairs: Ints = flows.src[rows].astype(np.int64) * len(flows.addresses) + flows.dst[rows]
    return pairs


def pipelines_behind(context: Context, job: JobView, tail: Ints) -> set[int]:
    """Pipelines that moved far less than most in the records ``tail`` of an unfinished step.

    Replicas begin a step together and do the same. Where records are cut off, all are as far.
    """
    number = job.pipelines.number
    lanes: list[int] = np.unique(number[number >= 0]).tolist()
    if len(lanes) < 2:
        return set()
    parts = [part for part in job.phases.classes if part.kind == "pp"]
    moved = [_moved(context, job, part.one.traffic.row[part.step >= 0]) for part in parts]
    usual = np.sum(moved, axis=0) / max(1, job.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        came = _moved(context, job, tail)[lanes] / usual[lanes]
    middle = float(np.median(came))
    if not middle > QUARTER:
        return set()
    return {lane for lane, share in zip(lanes, came.tolist(), strict=True)
            if share < BEHIND * middle}  # fmt: skip


def _moved(context: Context, job: JobView, rows: Ints | Codes) -> Floats:
    """Bytes that each pipeline moved in ``rows``."""
    place = np.searchsorted(job.phases.endpoints, context.flows.src[rows])
    number = job.pipelines.number[np.minimum(place, job.phases.endpoints.size - 1)]
    known = number >= 0
    size = context.flows.bytes[rows][known].astype(np.float64)
    moved = np.zeros(int(job.pipelines.number.max()) + 1)
    np.add.at(moved, number[known], size)
    return moved
