"""How long a stage of a pipeline computes, where the messages of a step are merged into one record.

The first begin and the last end of a record are exact, however many messages it holds. So one
forward pass and one backward pass of each stage still show in every step:

* between the begin of the first activation that a stage gets and that of the first it sends,
* between the end of the last gradient that it gets and that of the last it sends,
* in the last stage, between the end of the last activation and that of the last gradient; and
  between the begin of the first activation and that of the first gradient, if it answers each
  activation before it gets all of them: a forward and a backward pass,
* in the first stage, between the end of the last gradient and the begin of its collectives. Where
  these begin together with those of other replicas, since the last gradients of all of them.

Each holds one transfer, which is the same in every step. In a step with more activations than
gradients, those of an evaluation came first, so a last stage's first answer is unknown. A stage
whose collectives end after those of the first stage has its update and its host work to do when its
first input comes. How long that forward pass takes is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView, measured_once
from llmprism.methods.prism.faults.measures.bursts import Bursts, bursts_of
from llmprism.methods.prism.faults.measures.series import DEVIATIONS
from llmprism.methods.prism.faults.passes.passes import step_before_ended
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import deviation, finite_median, nanmedian

PAIR = 2  # servers of a collective that waits for all of its ranks
AS_MUCH = 1.5  # times the last answer of a last stage: its first one holds no more passes
EARLY = 0.25  # of the steps: collectives that begin so often before all are there wait for nobody
MORE = 0.02  # of the activations of a step, at least: those of an evaluation are more
AS_ONE = 0.1  # of the spread of the last gradients: collectives that begin so near are one


def edge_passes_ns(context: Context, job: JobView) -> Floats:
    """Forward and backward pass of each endpoint in each step [ns], (endpoints, steps, 2)."""
    edges = _edges(context, job)
    begin, end, first_end = edges.begin, edges.end, edges.first_end
    found = np.full((job.phases.endpoints.size, job.count, 2), np.nan)
    given = np.full((job.phases.endpoints.size, job.count), np.nan)
    at = _rows(job)
    for (number, stage), row in at.items():
        before, after = at.get((number, stage - 1)), at.get((number, stage + 1))
        if before is not None and after is not None:
            found[row, :, 0] = begin[row, after] - begin[before, row]
            found[row, :, 1] = end[row, before] - end[after, row]
        elif before is not None:
            found[row, :, 1] = end[row, before] - end[before, row]
            lasts = first_end[before, row] - begin[before, row]
            answer = begin[row, before] - begin[before, row]
            early = finite_median(end[before, row] - begin[row, before]) > 0
            first = _first_answer(answer, lasts, found[row, :, 1]) if early else np.nan
            evaluated = _evaluated(edges.bytes[before, row], edges.bytes[row, before])
            found[row, :, 0] = np.where(evaluated, np.nan, first)
        elif after is not None:
            given[row] = end[after, row]
    found[:, :, 0][_busy_at_first(job, at)] = np.nan
    collective = _collective_ns(job)
    since = collective - _all_there(context, job, collective, given)
    begun_early: Bools = np.isfinite(since) & (since <= 0)
    waits = begun_early.sum(axis=1) <= EARLY * np.isfinite(since).sum(axis=1)
    found[waits, :, 1] = np.fmax(found[waits, :, 1], since[waits])
    return np.where(found > 0, found, np.nan)


def _first_answer(answer_ns: Floats, lasts_ns: Floats, last_ns: Floats) -> Floats:
    """How long a last stage takes for its first answer in each step [ns].

    NaN if it has other work to do first, as where it holds several parts of the model: its
    ``last_ns`` answer shows that. By what the first record of activations ``lasts_ns`` longer than
    usual, it was on the wire.
    """
    if not finite_median(answer_ns) < AS_MUCH * finite_median(last_ns):
        return np.full(answer_ns.size, np.nan)
    longer_ns = np.maximum(lasts_ns - finite_median(lasts_ns), 0.0)
    found: Floats = answer_ns - np.where(lasts_ns < answer_ns, longer_ns, 0.0)
    return found


def _evaluated(forth: Floats, back: Floats) -> Bools:
    """In which steps more activations than usual have no gradient, by the bytes of both.

    These vary together with the lengths of sequences, and apart from each other if sampled.
    """
    ratio = forth / back
    usual = finite_median(ratio)
    found: Bools = ratio - usual > np.fmax(MORE * usual, DEVIATIONS * deviation(ratio))
    return found


def _busy_at_first(job: JobView, at: Mapping[tuple[int, int], int]) -> Bools:
    """Whether each endpoint ended the step before later than the first stage of its pipeline.

    Then its first input may have waited for it, (endpoints, steps).
    """
    ended = step_before_ended(job)
    busy = np.zeros(ended.shape, np.bool_)
    for (number, _), row in at.items():
        first = at.get((number, 0))
        if first is not None:
            busy[row] = ended[row] > ended[first]
    return busy


def _all_there(context: Context, job: JobView, begin: Floats, given: Floats) -> Floats:
    """When each endpoint, and all that it waits for before a collective, had their last gradients.

    Between two servers there is one hop each way, which begins when both are there. In a longer
    ring each endpoint has another hop, which waits for one that is late only beside that one.
    Other collectives let nobody begin before all are there. So do those of several ranks of a stage
    in one server, which have a ring for each NIC and pass through all of these ranks.
    """
    there = given.copy()
    servers = context.topology.servers[job.phases.endpoints]
    for one in np.unique(job.phases.dp_group[job.phases.dp_group >= 0]).tolist():
        rows = np.flatnonzero(job.phases.dp_group == one)
        if np.unique(servers[rows]).size == PAIR or _begin_as_one(begin[rows], given[rows]):
            there[rows] = _last_of(given[rows])
    stage = np.where(job.phases.dp_group >= 0, job.pipelines.stage, -1)
    for rows in _alike(servers, stage):
        if _begin_as_one(begin[rows], given[rows]):
            there[rows] = np.fmax(there[rows], _last_of(given[rows]))
    return there


def _last_of(given: Floats) -> Floats:
    """The last of some moments in each step, for each endpoint whose own one is known."""
    last: Floats = np.where(np.isnan(given), np.nan, np.fmax.reduce(given))
    return last


def _alike(servers: Codes, stage: Ints) -> list[Ints]:
    """Endpoints of each server and stage (-1 for none) that has several."""
    keys = sorted(set(zip(servers.tolist(), stage.tolist(), strict=True)))
    rows = [np.flatnonzero((servers == one) & (stage == own)) for one, own in keys if own >= 0]
    return [own for own in rows if own.size > 1]


def _begin_as_one(begin: Floats, given: Floats) -> bool:
    """Whether members of a group begin together, however far apart they had their last gradients.

    Apart is what they are beside what they always are: clocks differ.
    """
    spread = []
    for when in (begin, given):
        apart = when - nanmedian(when, axis=0)
        apart -= nanmedian(apart, axis=1)[:, None]
        spread.append(np.fmax.reduce(apart) - np.fmin.reduce(apart))
    return bool(np.nansum(spread[0]) < AS_ONE * np.nansum(spread[1] * np.isfinite(spread[0])))


def first_activations_ns(context: Context, job: JobView) -> Floats:
    """When each endpoint sends the first activation of each step [ns], (endpoints, steps).

    NaN for the last stage, which sends none.
    """
    begin, at = _edges(context, job).begin, _rows(job)
    found = np.full((job.phases.endpoints.size, job.count), np.nan)
    for (number, stage), row in at.items():
        if (number, stage + 1) in at:
            found[row] = begin[row, at[number, stage + 1]]
    return found


def first_messages_ns(context: Context, job: JobView) -> tuple[Floats, Floats]:
    """When each endpoint sends the first message of each step, and when it has got its first one.

    In ns, (endpoints, steps). Of a record that also holds later messages only the begin counts.
    NaN for what a first stage gets.
    """
    edges, at = _edges(context, job), _rows(job)
    begin, first_end = edges.begin, edges.first_end
    sent, got = np.full((2, job.phases.endpoints.size, job.count), np.nan)
    for (number, stage), row in at.items():
        before, after = at.get((number, stage - 1)), at.get((number, stage + 1))
        to = before if after is None else after
        if to is None:
            continue
        sent[row] = begin[row, to]
        if before is not None:
            whole = first_end[before, row] <= sent[row]
            got[row] = np.where(whole, first_end[before, row], begin[before, row])
    return sent, got


def last_gradients_ns(context: Context, job: JobView) -> Floats:
    """When the last gradient of each step ends that an endpoint sends [ns], (endpoints, steps).

    Of a first stage, the last one that it gets.
    """
    end, at = _edges(context, job).end, _rows(job)
    found = np.full((job.phases.endpoints.size, job.count), np.nan)
    for (number, stage), row in at.items():
        before, after = at.get((number, stage - 1)), at.get((number, stage + 1))
        if before is not None:
            found[row] = end[row, before]
        elif after is not None:
            found[row] = end[after, row]
    return found


def _rows(job: JobView) -> dict[tuple[int, int], int]:
    """Row of the endpoint of each pipeline and stage."""
    both = zip(job.pipelines.number.tolist(), job.pipelines.stage.tolist(), strict=True)
    return {(number, stage): row for row, (number, stage) in enumerate(both) if number >= 0}


@dataclass(frozen=True)
class _Moments:
    """One value in each step for each pair of endpoints; NaN where there is none."""

    steps: int
    when: dict[tuple[int, int], Floats]

    def __getitem__(self, pair: tuple[int, int]) -> Floats:
        moments = self.when.get(pair)
        return np.full(self.steps, np.nan) if moments is None else moments


@dataclass(frozen=True)
class _Edges:
    """First begin, last end and first end of what passes between two endpoints, and its bytes."""

    begin: _Moments
    end: _Moments
    first_end: _Moments
    bytes: _Moments


@measured_once
def _edges(context: Context, job: JobView) -> _Edges:
    """What shows of the messages between two endpoints in each step."""
    edges = _Edges(*(_Moments(job.count, {}) for _ in range(4)))
    for part in job.phases.classes:
        if part.kind != "pp":
            continue
        own, bursts = part.one.connections, bursts_of(context, job, part)
        sides = (context.connections.src[own], context.connections.dst[own])
        src, dst = (np.searchsorted(job.phases.endpoints, side).tolist() for side in sides)
        for found, of, values in zip(
            (edges.begin, edges.end, edges.first_end, edges.bytes),
            (np.fmin, np.fmax, np.fmin, np.fmax),
            _of_cells(job, bursts, own.size),
            strict=True,
        ):
            for pair, row in zip(zip(src, dst, strict=True), values, strict=True):
                found.when[pair] = of(found[pair], row)
    return edges


def _of_cells(job: JobView, bursts: Bursts, hops: int) -> Iterator[Floats]:
    """First begin, last end, first end and bytes of each hop in each step, (hops, steps)."""
    cell = bursts.place * job.count + bursts.step
    for of, times in (
        (np.fmin, bursts.start_ns),
        (np.fmax, bursts.end_ns),
        (np.fmin, bursts.end_ns),
    ):
        when = np.full(hops * job.count, np.nan)
        of.at(when, cell, (times - job.ranks.origin_ns).astype(np.float64))
        yield when.reshape(hops, job.count)
    total = np.bincount(cell, bursts.size, hops * job.count)
    yield np.where(total > 0, total, np.nan).reshape(hops, job.count)


def _collective_ns(job: JobView) -> Floats:
    """Begin of the collectives of each endpoint in each step [ns]."""
    start = job.phases.moments["dp"].start_ns
    begins: Floats = np.where(start == MISSING, np.nan, start - float(job.ranks.origin_ns))
    return begins
