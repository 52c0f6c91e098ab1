"""Bursts: records with the short silences between them bridged.

Where an exporter cuts records after a very short silence, a slow transfer falls into many
records, each of which looks fast. So silences of a connection that are shorter than a small
share of the job's step are bridged, whatever the exporter did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.phases.own_steps import in_own_steps
from llmprism.numerics.arrays import Codes, Ints, latest_in_groups, order_in_groups

SHORT = 0.005  # of a step: the messages of 64 micro-batches are still distinguished


@dataclass(frozen=True)
class Records:
    """Records of messages by burst, then time: the number of the burst, [ns], [ns], [bytes]."""

    burst: Ints
    start_ns: Ints
    end_ns: Ints
    size: Ints


@dataclass(frozen=True)
class Bursts:
    """Bursts of a class of connections, by connection, then time; equal length arrays.

    Attributes
    ----------
    place : index of the connection in its class.
    row : row of the first record.
    step : training step.
    start_ns, end_ns, size : [ns], [bytes].
    pieces : the records that they are made of. None of a collective: a record ends where it waits.
    """

    place: Ints
    row: Codes
    step: Ints
    start_ns: Ints
    end_ns: Ints
    size: Ints
    pieces: Records | None = None


def bursts_of(context: Context, job: JobView, part: KindOf) -> Bursts:
    """Records of one class, those of a connection and step that are close together as one."""
    flows = context.flows
    known, cell = part.cells(context.connections, job.count)
    order = order_in_groups(cell, part.traffic.start_ns[known])
    known, cell = known[order], cell[order]
    row, size = part.traffic.row[known], part.traffic.size[known]
    place, step = cell // job.count, cell % job.count
    start, end = flows.start_ns[row], flows.end_ns[row]
    if not row.size:
        return Bursts(place, row, step, start, end, size)
    opens = np.ones(row.size, np.bool_)
    opens[1:] = start[1:] - latest_in_groups(cell, end)[:-1] > SHORT * job.period_ns
    opens[1:] |= np.diff(cell) != 0
    at = np.flatnonzero(opens)
    found = Bursts(
        place[at], row[at], step[at], start[at], np.maximum.reduceat(end, at),
        np.add.reduceat(size, at),
    )  # fmt: skip
    if part.kind != "pp":
        return found
    pieces = Records(np.cumsum(opens) - 1, start, end, size)
    return _in_own_steps(job, replace(found, pieces=pieces))


def _in_own_steps(job: JobView, bursts: Bursts) -> Bursts:
    """``bursts``, of which those that count to the step before or after are in their own."""
    firsts = job.phases.first_of_epoch
    own = (bursts.place, bursts.step, bursts.size)
    return replace(bursts, step=in_own_steps(*own, job.count, firsts, counted=True))
