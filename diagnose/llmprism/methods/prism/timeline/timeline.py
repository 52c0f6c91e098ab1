"""The timeline: begin and end of every step of every rank.

The end of a step is the end of its data-parallel traffic, or of what follows it at once
(:mod:`~llmprism.methods.prism.timeline.closings`). The begin is the end of the step
before, plus the host's work between steps, which leaves no traffic: in a job with a pipeline
it is what remains between that end and the first activation, less one forward pass. Each rank of
the first stage shows its own, if it differs from the others by more than forward passes do, and if
messages can be counted, and are not sent over TCP, where they may wait for others. All other ranks
are taken to do as much as those of the first stage do in the median. Parameters that are gathered
in the next step show the begin of every stage. In a job without either, host work cannot be
distinguished from computation. Only pauses can
(:mod:`~llmprism.methods.prism.timeline.pauses`). An evaluation that gathers parameters shows itself
(:mod:`~llmprism.methods.prism.cycles.evaluations`).

The first step has no predecessor. It begins, for all ranks of the job alike, one forward pass
before the first activation, or as long before the first data-parallel traffic as it usually
begins after the end of a step; or with the first traffic of its passes, if that
is earlier.

Ranks without data-parallel traffic end a step with the other ranks of their stage, if those have
any: gradients that leave a server by one of its ranks reach the others over NVLink. In a stage
without (one replica, or replicas in one server) they end it when they have sent the last gradient;
those of the first stage one backward pass after they got it; and when they have computed delayed
gradients of weights, if passes are split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.first_messages import NOISE
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.pipelines.split_passes import weights_ns
from llmprism.methods.prism.timeline.closings import Closings, with_closings
from llmprism.methods.prism.timeline.pauses import find_pauses
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import deviation, finite_median, nanmedian

PASSES = ("tp", "cp", "ep")  # kinds of traffic within passes
ALL_BUT = 0.99  # of the bytes of a step: all but what control messages may be


@dataclass(frozen=True)
class Ranks:
    """Steps of the ranks of one job; times are relative to ``origin_ns``.

    Attributes
    ----------
    start, end, dp_end : [ns], NaN where unknown, shape (endpoints, steps).
    origin_ns : what times are relative to.
    """

    start: Floats
    end: Floats
    dp_end: Floats
    origin_ns: int


def find_timeline(phases: Phases, pipelines: Pipelines, closings: Closings | None = None) -> Ranks:
    """Lay out the steps of every endpoint of a job; ``closings`` may end them."""
    dp, pp = phases.moments["dp"], phases.moments["pp"]
    known = np.concatenate([m.start_ns[m.start_ns != MISSING] for m in (dp, pp)])
    origin = int(known.min()) if known.size else 0
    dp_start, dp_end = (relative(times, origin) for times in (dp.start_ns, dp.end_ns))
    end = _ends(phases, pipelines, closings, origin)
    shown, before = _begins_shown(phases, pipelines, end, origin)
    firsts = phases.first_of_epoch
    if np.isfinite(shown).any():
        host = _host(shown, end, firsts)
    else:
        host = find_pauses(dp_start, end, firsts)
        host = np.fmax(host, _evaluations(phases, end, dp_start, origin))
    start = np.full_like(end, np.nan)
    start[:, 1:] = end[:, :-1] + np.nan_to_num(host[None, 1:])
    if phases.gathers is None and pipelines.micro_batches > 0 and not pipelines.answers.blocks:
        start[:, 1:] = _of_first_stage(pipelines, start, shown, end)
    opening = _first_traffic(phases, origin, ("dp",))  # parameters may be sent to all before
    dp_start[:, firsts] = np.fmax(dp_start[:, firsts], opening)
    begin = _begins(shown, dp_start, before, end, firsts)
    begin = np.fmin(begin, _first_traffic(phases, origin, PASSES))
    start[:, firsts] = begin[None, :]
    return Ranks(np.minimum(start, end), end, dp_end, origin)


def _ends(phases: Phases, pipelines: Pipelines, closings: Closings | None, origin: int) -> Floats:
    """End of each step [ns], shape (endpoints, steps)."""
    end = relative(phases.moments["dp"].end_ns, origin)
    without = np.isnan(end).all(axis=1)
    if without.any():
        end[without] = _ends_without_dp(phases, pipelines, origin)[without]
    end = filled(end)
    return end if closings is None else with_closings(closings, end, origin, np.asarray(without))


def _begins_shown(
    phases: Phases, pipelines: Pipelines, end: Floats, origin: int
) -> tuple[Floats, Floats]:
    """When steps begin by their first activations or gathers, and the ``end`` of what is before.

    Both in ns, shape (endpoints, steps); begins are NaN where traffic does not show them.
    """
    shown, before = np.full_like(end, np.nan), np.roll(end, 1, axis=1)
    if pipelines.length > 1:
        first_sent = pipelines.first_sent + (pipelines.origin_ns - origin)
        firsts = phases.first_of_epoch
        lead = np.full(end.shape[1], pipelines.lead_ns)
        lead[firsts] = _lead(first_sent, end, pipelines.lead_ns, firsts)
        shown = first_sent - lead * _slower(pipelines)
    if phases.gathers is not None:
        begun = relative(phases.gathers.start_ns, origin)
        shown = np.where(np.isnan(begun), shown, begun)
        before = np.fmax(before, relative(phases.gathers.end_ns, origin))
    return shown, before


def _of_first_stage(pipelines: Pipelines, start: Floats, shown: Floats, end: Floats) -> Floats:
    """Begins of all steps but the first, with those of ranks of the first stage that differ [ns].

    They differ by more than forward passes do.
    """
    usual, own = start[:, 1:], np.maximum(shown[:, 1:], end[:, :-1])
    noise = deviation(pipelines.second_sent - pipelines.first_sent)
    differs = np.abs(own - usual) > NOISE * np.nan_to_num(noise)
    differs &= (own < usual) | pipelines.are_whole[:, 1:]
    return np.where(differs, own, usual)


def _lead(first_sent: Floats, end: Floats, lead_ns: float, firsts: Ints) -> float:
    """Time from the begin of a step to its first activation; ``lead_ns`` is an estimate of it.

    No step begins before the end of the one before.
    """
    between = nanmedian(first_sent[:, 1:] - end[:, :-1], axis=0)
    between = between[np.setdiff1d(np.arange(between.size), firsts[1:] - 1)]
    usual = finite_median(between)
    return min(lead_ns, usual) if usual > 0 else lead_ns


def _slower(pipelines: Pipelines) -> Floats:
    """How many times as long as usual passes of the first stage take in each step.

    As when programs warm up. Shape (steps,); 1 where noise explains the difference, and for TCP,
    over which a second activation may wait for the first.
    """
    pass_ns = nanmedian(pipelines.second_sent - pipelines.first_sent, axis=0)
    usual, noise = finite_median(pass_ns), deviation(pass_ns)
    if not usual > 0 or pipelines.answers.blocks:
        return np.ones(pass_ns.size)
    differs = np.abs(pass_ns - usual) > NOISE * noise
    return np.where(differs, pass_ns / usual, 1.0)


def relative(times: Ints, origin: int) -> Floats:
    """``times`` [ns] since ``origin``; NaN where they are MISSING."""
    return np.where(times == MISSING, np.nan, (times - origin).astype(np.float64))


def filled(end: Floats) -> Floats:
    """Times of ranks that show none: the median of those that do."""
    middle = nanmedian(end, axis=0)
    return np.where(np.isnan(end), middle[None, :], end)


def _host(shown: Floats, end: Floats, firsts: Ints) -> Floats:
    """Host work before each step [ns], shape (steps,): median over ranks, never negative."""
    host = np.full(end.shape[1], np.nan)
    if np.isfinite(shown).any():
        between = shown[:, 1:] - end[:, :-1]
        for step in range(1, end.shape[1]):
            own = between[:, step - 1]
            own = own[np.isfinite(own)]
            if own.size and step not in firsts:
                host[step] = max(0.0, float(np.median(own)))
    return host


def _evaluations(phases: Phases, end: Floats, dp_start: Floats, origin: int) -> Floats:
    """Time from the end of a step until the evaluation after it has gathered all [ns].

    Shape (steps,), of the step that follows; NaN where there is no evaluation.
    """
    until = np.full(end.shape[1], np.nan)
    ends = np.sort(of_no_step(phases)[1]) - origin
    if ends.size == 0 or not np.isfinite(dp_start).any():
        return until
    low, high = np.nanmax(end[:, :-1], axis=0), np.nanmin(dp_start[:, 1:], axis=0)
    last = np.searchsorted(ends, high, side="right") - 1
    shown = (last >= 0) & (ends[last] > low)
    until[1:][shown] = ends[last[shown]] - np.nanmedian(end[:, :-1], axis=0)[shown]
    return until


def of_no_step(phases: Phases) -> tuple[Ints, Ints]:
    """Starts and ends of data-parallel records that belong to no step, as in evaluations [ns]."""
    own = [one for one in phases.classes if one.kind == "dp"]
    start, end = (
        np.concatenate([np.empty(0, np.int64), *times])
        for times in (
            [one.traffic.start_ns[one.step < 0] for one in own],
            [one.traffic.end_ns[one.step < 0] for one in own],
        )
    )
    return start, end


def _begins(shown: Floats, dp_start: Floats, before: Floats, end: Floats, firsts: Ints) -> Floats:
    """Begin of the first step of each epoch, common to all ranks.

    ``before`` is when the traffic that precedes a step's data-parallel traffic ends.
    """
    begins = np.zeros(firsts.size)
    later = np.setdiff1d(np.arange(1, before.shape[1]), firsts)
    for i, step in enumerate(firsts.tolist()):
        if np.isfinite(shown[:, step]).any():
            begins[i] = float(np.nanmin(shown[:, step]))
        elif later.size and np.isfinite(dp_start[:, step]).any():
            lead = max(float(np.nanmedian(dp_start[:, later] - before[:, later])), 0.0)
            own = dp_start[:, step]  # some may have moved something long before
            begins[i] = float(np.nanmin(own[own >= np.nanmedian(own) - lead]) - lead)
        elif np.isfinite(dp_start[:, step]).any():
            begins[i] = float(np.nanmin(dp_start[:, step]))
        else:
            begins[i] = float(np.fmin.reduce(end[:, step]))
    return begins


def _first_traffic(phases: Phases, origin: int, kinds: Sequence[str]) -> Floats:
    """First traffic of some ``kinds`` in the first step of each epoch; NaN where there is none.

    Bytes are counted from the end of the step, as many as usual: what a program sends before it
    begins to train is no part of the first step.
    """
    first = np.full(phases.first_of_epoch.size, np.nan)
    for one in phases.classes:
        size, step = one.traffic.size, one.step
        volume = np.bincount(step[step >= 0], size[step >= 0], phases.count)
        if one.kind not in kinds or not volume.any():
            continue
        usual = np.median(volume[volume > 0])  # a class may belong to one of several attempts
        for i, number in enumerate(phases.first_of_epoch.tolist()):
            own = np.flatnonzero(step == number)
            own = own[np.argsort(-one.traffic.start_ns[own], kind="stable")]
            at = int(np.searchsorted(np.cumsum(size[own]), ALL_BUT * usual))
            if own.size:
                begin_ns = one.traffic.start_ns[own[min(at, own.size - 1)]]
                first[i] = np.fmin(first[i], float(begin_ns - origin))
    return first


def _ends_without_dp(phases: Phases, pipelines: Pipelines, origin: int) -> Floats:
    """Ends of ranks without data-parallel traffic: those of the last replica in their stage.

    A replica's step ends when its last gradient was sent, or worked through. Replicas whose
    gradients are reduced over NVLink wait for each other all the same. If other replicas of the
    stage have data-parallel traffic, it ends with that.
    """
    shift = pipelines.origin_ns - origin
    got = pipelines.last_got + np.nan_to_num(pipelines.backward_ns)
    ends = np.where((pipelines.stage == 0)[:, None], got, pipelines.last_sent) + shift
    ends = np.where(np.isnan(ends), relative(phases.moments["pp"].end_ns, origin), ends)
    ends += weights_ns(phases, pipelines)[:, None]
    dp_end = relative(phases.moments["dp"].end_ns, origin)
    for stage in np.unique(pipelines.stage).tolist():
        rows = pipelines.stage == stage
        reduced = nanmedian(dp_end[rows], axis=0)
        last = np.fmax.reduce(ends[rows], axis=0)
        ends[rows] = np.where(np.isnan(reduced), last, reduced)
    return ends
