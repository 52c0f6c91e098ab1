"""Pauses between the steps of a job without pipeline: evaluations, checkpoints, late data.

Nothing shows what the host does between two steps. But a pause delays all data-parallel traffic of
one step without stretching it, as slow computation would. Two kinds are pauses, and not steps that
take longer: *long* ones that are seldom, and *regular* ones, before every k-th step. Regular ones
may be short if chance does not explain that just these steps begin latest. Then their traffic may
take longer, too: ranks do not end an evaluation at the same time.
"""

from __future__ import annotations

from math import comb

import numpy as np

from llmprism.methods.prism.parameters import FEWEST, QUARTER
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

PAUSE = 0.15  # of a step: what traffic is late by after a pause, at least, if chance may explain it
SELDOM = 0.34  # share of steps that follow a pause, at most, unless pauses are regular
CHANCE = 0.01  # that the steps that begin latest are at equal distances for no reason


def find_pauses(dp_start: Floats, end: Floats, firsts: Ints) -> Floats:
    """Pause before each step of a job without pipeline [ns]; NaN where there is none.

    ``dp_start`` and ``end`` are those of each rank's data-parallel traffic, shape (ranks, steps).
    The result has the shape (steps,). ``firsts`` are the first steps of attempts.
    """
    steps = end.shape[1]
    pause = np.full(steps, np.nan)
    later = np.setdiff1d(np.arange(1, steps), firsts)
    if later.size < FEWEST or not np.isfinite(dp_start[:, later]).any():
        return pause
    lead = nanmedian(dp_start[:, later] - end[:, later - 1], axis=0)
    span = nanmedian(end[:, later] - dp_start[:, later], axis=0)
    rest = np.flatnonzero(np.isfinite(lead))
    for are_regular in (True, False, True):  # a long pause hides regular ones
        times = lead[rest], span[rest]
        found = _regular(*times, later[rest], firsts) if are_regular else _seldom(*times)
        paused = ~np.isnan(found)
        pause[later[rest[paused]]] = found[paused]
        rest = rest[~paused]
    return pause


def _regular(lead: Floats, span: Floats, steps: Ints, firsts: Ints) -> Floats:
    """Regular pauses before some of the ``steps`` [ns]; NaN where there is none."""
    none = np.full(lead.size, np.nan)
    if lead.size < FEWEST:
        return none
    ordered = np.sort(lead)
    usual = ordered[: int(np.argmax(np.diff(ordered))) + 1]
    paused, excess = lead > usual[-1], lead - np.median(usual)
    every = _distance(paused, steps, firsts)
    if not every:
        return none
    attempts = np.unique(np.searchsorted(firsts, steps)).size
    covers = abs(paused.sum() - steps.size / every) <= attempts
    rare = covers and every / comb(lead.size, int(paused.sum())) < CHANCE
    believed = rare or _are_late(lead, span, excess)[paused].all()
    return np.where(paused, excess, np.nan) if believed else none


def _distance(paused: Bools, steps: Ints, firsts: Ints) -> int:
    """Steps from one pause to the next, if in each attempt always as many; 0 if not."""
    attempt = np.searchsorted(firsts, steps[paused], side="right")
    apart = np.diff(steps[paused])[np.diff(attempt) == 0]
    if apart.size < FEWEST - 1 or apart.min() < max(2, apart.max()):
        return 0
    return int(apart[0])


def _seldom(lead: Floats, span: Floats) -> Floats:
    """Long pauses before steps, if they are few [ns]; NaN where there is none."""
    if lead.size < FEWEST:
        return np.full(lead.size, np.nan)
    excess = lead - np.median(lead)
    paused = _are_late(lead, span, excess)
    return np.where(paused & (paused.mean() <= SELDOM), excess, np.nan)


def _are_late(lead: Floats, span: Floats, excess: Floats) -> Bools:
    """Which steps begin late by ``excess`` [ns], without traffic that takes longer than usual."""
    usual, whole = lead - excess, np.nanmedian(span)
    late = excess > PAUSE * (usual + whole)
    stretched = span > (1 + excess / np.maximum(usual, 1.0) * QUARTER) * whole
    return np.asarray(late & ~stretched)
