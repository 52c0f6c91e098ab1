"""Steps of ranks that shard their parameters, by the order of gathers and reductions.

A forward pass gathers all parameters and reduces nothing. A backward pass gathers each layer again
and reduces its gradients, which have twice the bytes. So the bytes that are gathered from one
reduction to the next show where *passes* begin, without any silence. Where more is gathered than
that, an evaluation precedes the forward pass.

After the last pass of a step ranks update parameters and send nothing. After any other pass the
next gather follows the last reduction at once. So what rests between passes shows how many of them
are a step: the number that makes the rests likeliest. Much longer ones may also be pauses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.cycles.cycles import Division, Traffic, divided
from llmprism.methods.prism.cycles.divisions import CLEAR
from llmprism.methods.prism.cycles.evaluations import bytes_before
from llmprism.methods.prism.parameters import EQUAL, FEWEST, MOSTLY, NEARLY, SMALL
from llmprism.methods.prism.windows import log_density
from llmprism.numerics.arrays import Bools, Floats, Ints

SAME = 1e-3  # in logarithm: sizes of messages that are one; of all bytes: a size that counts
NONE = 1e-4  # of a pass: a rest that is none


def sharded_steps(traffic: Traffic) -> Division | None:
    """The steps of ``traffic``; None if it shows no passes, or not how many are a step."""
    role = _roles(traffic.size)
    reduces = np.flatnonzero(role < 0)
    gathered, reduced = (bytes_before(traffic.size, chosen) for chosen in (role > 0, role < 0))
    run = np.diff(gathered[reduces])
    lengths = np.sort(run[run > 0])
    for at in np.flatnonzero(lengths[1:] >= CLEAR * lengths[:-1])[::-1].tolist():
        opens = np.flatnonzero(run > lengths[at])
        passes = divided(reduces[opens] + 1, reduced, float(lengths[at + 1] / lengths[at]))
        if opens.size < FEWEST or not passes.quality >= MOSTLY:
            continue
        volume = float(np.median(passes.volumes))
        if abs(np.median(np.diff(gathered[passes.cuts])) - volume) <= SMALL * volume:
            more = run[opens] - np.median(run[opens])
            more[more <= SMALL * volume] = 0.0  # one gathers ahead of others; an evaluation all
            begins = np.searchsorted(gathered, gathered[reduces[opens]] + more)
            return _of_passes(traffic, passes, begins)
    return None


def _of_passes(traffic: Traffic, passes: Division, begins: Ints) -> Division | None:
    """The steps of ``passes``, the forward passes of which begin at ``begins``."""
    updated = _updated(traffic.rests_ns()[passes.cuts - 1] / passes.usual_ns(traffic))
    if updated is None:
        return None
    cuts = np.maximum(passes.cuts, begins)[updated]
    steps = divided(cuts, bytes_before(traffic.size), passes.clarity)
    if steps.quality >= MOSTLY:
        return steps
    return replace(steps, tolerance=EQUAL, regular_parts=1.0, regular_bytes=1.0, evaluated=True)


def _updated(rest: Floats) -> slice | None:
    """Which passes follow an update, by the ``rest`` before each, in passes; None if unknown."""
    level = np.log(np.maximum(rest, 0) + NONE)
    best, chosen = slice(None), np.ones(rest.size, np.bool_)
    likeliest = _likelihood(level, chosen)
    for every in range(2, rest.size // FEWEST + 1):
        whole = rest[: rest.size // every * every].reshape(-1, every)
        first = int(np.argmax(np.median(whole, axis=0)))
        own = np.arange(rest.size) % every == first
        likelihood = _likelihood(level, own) - np.log(every * rest.size)
        if likelihood > likeliest:
            best, chosen, likeliest = slice(first, None, every), own, likelihood
    others = 0.0 if chosen.all() else float(np.median(rest[~chosen]))
    longer = float(np.median(rest[chosen])) - others
    return best if longer > NONE and (others <= NONE or longer <= SMALL) else None


def holds_updates(traffic: Traffic, parts: Division) -> bool:
    """Whether each part reduces gradients, and gathers once what an update made: it is a step."""
    role = _roles(traffic.size)
    gathered, reduced = (bytes_before(traffic.size, chosen) for chosen in (role > 0, role < 0))
    edges = np.union1d(np.flatnonzero(role < 0), parts.firsts)
    run = np.diff(np.append(gathered[edges], gathered[-1]))
    longest = np.maximum.reduceat(run, np.searchsorted(edges, parts.firsts))
    ends = np.append(parts.firsts, len(traffic))
    gathers, reductions = np.diff(gathered[ends]), np.diff(reduced[ends])
    held = (gathers > 0) & (longest >= MOSTLY * gathers) & (reductions >= (2 - SMALL) * gathers)
    known = gathered[-1] + reduced[-1] >= NEARLY * traffic.size.sum()
    return bool(known and np.median(held) == 1)


def _likelihood(level: Floats, chosen: Bools) -> float:
    """Log likelihood of rests, if the ``chosen`` ones have one level, and the others another."""
    away = level - np.median(level[chosen])
    away[~chosen] = level[~chosen] - np.median(level[~chosen] if not chosen.all() else level)
    scale = max(float(np.median(np.abs(away))), SMALL)
    return float(log_density(away / scale).sum() - away.size * np.log(scale))


def _roles(size: Ints) -> Ints:
    """1 for records that gather, -1 for those that reduce, 0 where sizes do not tell."""
    scale, which = np.unique(np.rint(np.log(size) / SAME).astype(np.int64), return_inverse=True)
    moved = np.bincount(which, size)
    double = round(np.log(2) / SAME)
    place = {at: i for i, at in enumerate(scale.tolist()) if moved[i] >= SAME * moved.sum()}
    role = np.zeros(scale.size, np.int64)
    for at, i in place.items():
        twice = [place[near] for near in range(at + double - 1, at + double + 2) if near in place]
        if twice and role[i] == 0:
            role[i], role[twice] = 1, -1
    return role[which]
