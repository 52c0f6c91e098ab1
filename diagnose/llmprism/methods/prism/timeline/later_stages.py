"""When the later stages of a pipeline begin the step after a pause.

The first stage shows when it begins a step, the later ones do not. Usually each stage begins as
long after its own last step as the first one does. After a pause this is wrong, since the stages
end a step at different times:

- In an evaluation each stage computes forward passes of the same micro-batches, one stage after
  the other. It is ready when it has received the last activation and has computed one pass more.
- In another pause that is long, as a checkpoint, all ranks wait until the last one is ready. So
  all stages begin together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.parameters import NEARLY
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.micro_batches import are_whole, usual_size
from llmprism.methods.prism.pipelines.middle_stages import BACKWARD, SINGLE
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.timeline.pauses import PAUSE
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median, nanmedian

EARLY = 0.25  # quantile of when steps begin: no pause comes before these
ONE = 0.5  # messages: more than this is at least one


def after_pauses(flows: FlowTable, phases: Phases, pipelines: Pipelines, ranks: Ranks) -> Ranks:
    """``ranks`` with the starts of later stages after evaluations and other long pauses."""
    first, later = pipelines.stage == 0, pipelines.stage > 0
    if phases.count < 2 or not (first.any() and later.any()):
        return ranks
    activations = _activations(flows, phases, pipelines.stage, ranks.origin_ns)
    if not activations.are_whole:
        return ranks
    ready = _after_evaluations(activations, phases, pipelines, ranks)
    begin, end, free = (nanmedian(t[first], axis=0) for t in (ranks.start, ranks.end, ready))
    host = begin - np.where(np.isnan(free), np.append(np.nan, end[:-1]), free)
    if not np.isfinite(host).any():
        return ranks
    pause = PAUSE * finite_median(np.diff(end))
    long = host > np.nanquantile(host, EARLY) + pause
    usual = max(finite_median(host[~long]), 0.0)
    start = np.where(long[None, :], begin[None, :], ready + usual)
    start[:, phases.first_of_epoch] = np.nan
    ended = np.pad(ranks.end[:, :-1], ((0, 0), (1, 0)), constant_values=np.nan)
    start = np.minimum(np.maximum(start, ended + usual), ranks.end)
    known = later[:, None] & np.isfinite(start)
    return replace(ranks, start=np.where(known, start, ranks.start))


def _after_evaluations(
    activations: _Activations, phases: Phases, pipelines: Pipelines, ranks: Ranks
) -> Floats:
    """When each endpoint had computed the last pass of the evaluation before each step.

    Relative to the origin of ``ranks``, shape (endpoints, steps); NaN where there is none.
    """
    ready = np.full(ranks.end.shape, np.nan)
    one_message = usual_size(activations.size)
    shift = pipelines.origin_ns - ranks.origin_ns
    first = np.flatnonzero(pipelines.stage == 0)
    sent, left = _evaluated(activations, pipelines, ranks, first)
    after = np.flatnonzero(sent.min(axis=0) > ONE * one_message)
    if after.size == 0:
        return ready
    ready[np.ix_(first, after)] = left[:, after]
    bytes_ = np.median(sent, axis=0)
    forward = _forward_ns(activations, phases, pipelines)
    received = activations.by(activations.dst, activations.end, pipelines.stage.size)
    for one in np.flatnonzero(pipelines.stage > 0).tolist():
        arrivals, moved = received[one]
        before = np.searchsorted(arrivals, pipelines.last_sent[one, after - 1] + shift)
        last = np.searchsorted(moved, moved[before] + NEARLY * bytes_[after])
        known = np.isfinite(pipelines.last_sent[one, after - 1]) & (last < moved.size)
        for step, low, high in zip(after[known], before[known], last[known], strict=True):
            messages = np.diff(moved[low : high + 1]) / one_message
            ready[one, step] = _computed(
                arrivals[low:high], messages, forward[pipelines.stage[one]]
            )
    for stage in range(1, pipelines.length):
        rows = np.flatnonzero(pipelines.stage == stage)
        middle = nanmedian(ready[rows], axis=0)
        ready[rows] = np.where(np.isnan(ready[rows]), middle[None, :], ready[rows])
    return ready


def _computed(arrivals: Floats, messages: Floats, forward_ns: float) -> float:
    """When the passes of all ``messages`` have ended, which arrive up to each of ``arrivals``."""
    done = -np.inf
    for arrival, number in zip(arrivals.tolist(), messages.tolist(), strict=True):
        done = max(done + number * forward_ns, arrival + forward_ns)
    return done


@dataclass(frozen=True)
class _Activations:
    """Records of activations: places of both ends, times relative to an origin [ns], bytes."""

    src: Ints
    dst: Ints
    start: Floats
    end: Floats
    size: Ints

    @property
    def are_whole(self) -> bool:
        """Whether records hold whole messages. The times of sampled ones are chance."""
        return self.size.size > 0 and are_whole(self.size, usual_size(self.size))

    def by(self, who: Ints, when: Floats, count: int) -> list[tuple[Floats, Floats]]:
        """For each endpoint: times in order, and bytes moved before each and in all."""
        order = order_in_groups(who, when)
        cuts = np.searchsorted(who[order], np.arange(1, count))
        times, sizes = np.split(when[order], cuts), np.split(self.size[order], cuts)
        return [
            (own, np.concatenate(([0.0], np.cumsum(size))))
            for own, size in zip(times, sizes, strict=True)
        ]


def _activations(flows: FlowTable, phases: Phases, stage: Ints, origin: int) -> _Activations:
    """All messages of the pipelines from a stage to the next one, of steps or not."""
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    own = [one.traffic for one in phases.classes if one.kind == "pp"]
    rows = np.concatenate([np.empty(0, np.int64), *(one.row for one in own)])
    size = np.concatenate([np.empty(0, np.int64), *(one.size for one in own)])
    src, dst = place[flows.src[rows]], place[flows.dst[rows]]
    forward = stage[dst] == stage[src] + 1
    times = (flows.start_ns, flows.end_ns)
    start, end = ((at[rows[forward]] - origin).astype(np.float64) for at in times)
    return _Activations(src[forward], dst[forward], start, end, size[forward])


def _evaluated(
    activations: _Activations, pipelines: Pipelines, ranks: Ranks, first: Ints
) -> tuple[Floats, Floats]:
    """What ranks of the ``first`` stage send after a step and before the next one begins.

    Bytes, and when the last message left: both of shape (ranks, steps), at the step that begins.
    All ranks evaluate alike.
    """
    sent = activations.by(activations.src, activations.start, pipelines.stage.size)
    begins = pipelines.first_sent + (pipelines.origin_ns - ranks.origin_ns)
    bytes_ = np.zeros((first.size, ranks.end.shape[1]))
    left = np.full(bytes_.shape, np.nan)
    for i, one in enumerate(first.tolist()):
        times, moved = sent[one]
        since = np.searchsorted(times, ranks.end[one, :-1])
        until = np.searchsorted(times, begins[one, 1:])
        bytes_[i, 1:] = np.maximum(moved[until] - moved[since], 0.0)
        left[i, 1:] = np.append(times, np.nan)[until - 1]
    return bytes_, left


def _forward_ns(activations: _Activations, phases: Phases, pipelines: Pipelines) -> Floats:
    """Time of a forward pass of each stage [ns].

    The last stage answers the first activation of a step after a forward and a backward pass.
    """
    passes = np.full(pipelines.length, pipelines.middle_ns)
    ratio = pipelines.backward_ns / (pipelines.forward_ns or np.nan)  # merged records show 0
    ratio = ratio if ratio > 0 else float(BACKWARD)
    pp, last = phases.moments["pp"], pipelines.stage == pipelines.length - 1
    known = (pp.sent_ns != MISSING) & (pp.start_ns != MISSING) & last[:, None]
    answers = (pp.sent_ns - pp.start_ns)[known].astype(np.float64)
    single = activations.size < SINGLE * usual_size(activations.size)
    travel = finite_median((activations.end - activations.start)[single])
    passes[-1] = (finite_median(answers) - np.nan_to_num(travel)) / (1 + ratio)
    return passes
