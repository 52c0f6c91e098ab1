"""The run-length posterior in compiled code: the hypotheses, and what a number does to them.

Every hypothesis has a row in a table: its run length, its probability, and the parameters of its
normal-inverse-gamma distribution. :mod:`llmprism.numerics.bocd` has the model, and its references.
"""

from __future__ import annotations

import math

import numpy as np

from llmprism.numerics.arrays import Floats, Ints
from prism_common.compiled import compiled, compiled_part

Numbers = tuple[float, float, float, float]
"""Mean, kappa, alpha and beta of a prior."""

# A table of hypotheses has a row each, longest run first. Its columns:
_LENGTH, _MASS, _MEAN, _KAPPA, _BETA, _DENSITY = range(6)
_COLUMNS = 6


@compiled
def _normalisers(alpha: float, longest: int) -> Floats:
    """Return ln(gamma(a + 1/2) / gamma(a) / sqrt(pi)) for a = alpha, alpha + 1/2, ..."""
    table = np.empty(longest + 2)
    for n in range(longest + 2):
        a = alpha + 0.5 * n
        table[n] = math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * math.log(math.pi)
    return table


@compiled_part
def _begin(runs: Floats, at: int, mass: float, prior: Numbers) -> int:
    """Add the hypothesis that a regime begins now; return the number of hypotheses."""
    runs[at, _LENGTH], runs[at, _MASS] = 0.0, mass
    runs[at, _MEAN], runs[at, _KAPPA], runs[at, _BETA] = prior[0], prior[1], prior[3]
    return at + 1


@compiled_part
def _move(runs: Floats, source: int, target: int) -> None:
    for column in range(_DENSITY):
        runs[target, column] = runs[source, column]


@compiled_part
def _learn(x: float, active: int, runs: Floats, alpha: float, table: Floats) -> float:
    """Let every run predict ``x``, then update it; return the highest ln density."""
    best = -np.inf
    for i in range(active):
        length = runs[i, _LENGTH]
        kappa = runs[i, _KAPPA]
        off = x - runs[i, _MEAN]
        scale = 2.0 * runs[i, _BETA] * (kappa + 1.0) / kappa
        tail = (alpha + 0.5 * length + 0.5) * math.log1p(off * off / scale)
        runs[i, _DENSITY] = table[int(length)] - 0.5 * math.log(scale) - tail
        best = max(best, runs[i, _DENSITY])
        runs[i, _LENGTH] += 1.0
        runs[i, _KAPPA] += 1.0
        runs[i, _MEAN] += off / (kappa + 1.0)
        runs[i, _BETA] += kappa * off * off / (2.0 * (kappa + 1.0))
    return best


@compiled_part
def _drop_lightest(active: int, runs: Floats) -> float:
    """Remove the least likely hypothesis; return its probability."""
    least = 0
    for i in range(active):
        if runs[i, _MASS] < runs[least, _MASS]:
            least = i
    mass = float(runs[least, _MASS])
    for i in range(least, active - 1):
        _move(runs, i + 1, i)
    return mass


@compiled_part
def _advance(
    x: float, active: int, runs: Floats, prior: Numbers, hazard: float, prune: float, table: Floats
) -> tuple[int, float]:
    """Process one number; return the number of hypotheses and the probability dropped."""
    best = _learn(x, active, runs, prior[2], table)
    total = 0.0
    for i in range(active):
        runs[i, _MASS] *= math.exp(runs[i, _DENSITY] - best)
        total += runs[i, _MASS]
    kept, dropped = 0, 0.0
    for i in range(active):
        runs[i, _MASS] *= (1.0 - hazard) / total
        if runs[i, _MASS] <= prune / active:
            dropped += runs[i, _MASS]
        else:
            _move(runs, i, kept)
            kept += 1
    if kept == runs.shape[0] - 1:
        dropped += _drop_lightest(kept, runs)
        kept -= 1
    active = _begin(runs, kept, hazard, prior)
    for i in range(active):
        runs[i, _MASS] /= 1.0 - dropped
    return active, dropped


@compiled_part
def _most_likely(active: int, runs: Floats) -> int:
    top = 0
    for i in range(active):
        if runs[i, _MASS] > runs[top, _MASS]:
            top = i
    return top


@compiled_part
def _mass_up_to(k: int, active: int, runs: Floats) -> float:
    mass = 0.0
    for i in range(active):
        if runs[i, _LENGTH] <= k:
            mass += runs[i, _MASS]
    return mass


@compiled
def cut(
    values: Floats,
    offsets: Ints,
    usual: Numbers,
    spike_mean: Floats,
    spike_kappa: Floats,
    rule: tuple[float, float, float],
    longest: int,
    most: int,
) -> Floats:
    """Return P(run length <= 1) at each upward spike of the sequences, 0 elsewhere."""
    hazard, threshold, prune = rule
    spikes = np.zeros(values.size)
    table = _normalisers(usual[2], longest)
    runs = np.empty((min(longest + 2, most + 1), _COLUMNS))
    for g in range(offsets.size - 1):
        spike = (spike_mean[g], spike_kappa[g], usual[2], usual[3])
        active, since = _begin(runs, 0, 1.0, usual), 0
        for t in range(offsets[g], offsets[g + 1]):
            expected = runs[_most_likely(active, runs), _MEAN]
            active, _ = _advance(values[t], active, runs, spike, hazard, prune, table)
            since += 1
            if since == 1 or values[t] <= expected:
                continue
            short = _mass_up_to(1, active, runs)
            if short > threshold:
                spikes[t] = short
                active, since = _begin(runs, 0, 1.0, usual), 0
    return spikes


@compiled
def follow(
    values: Floats, prior: Numbers, hazard: float, k: int, limits: tuple[float, int]
) -> tuple[Floats, Ints, Floats]:
    """Return P(run length <= k), the most likely run length, and what is dropped, by point."""
    n = values.size
    short, dropped = np.zeros(n), np.zeros(n)
    likely = np.zeros(n, dtype=np.int64)
    table = _normalisers(prior[2], n)
    prune, most = limits
    runs = np.empty((min(n + 2, most + 1), _COLUMNS))
    active = _begin(runs, 0, 1.0, prior)
    for t in range(n):
        active, dropped[t] = _advance(values[t], active, runs, prior, hazard, prune, table)
        short[t] = _mass_up_to(k, active, runs)
        likely[t] = int(runs[_most_likely(active, runs), _LENGTH])
    return short, likely, dropped
