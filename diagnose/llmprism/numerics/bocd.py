"""Bayesian online change-point detection: the length of the present regime.

Numbers are processed one by one. Every possible *run length* (how many of the latest
numbers belong to the present regime) is a hypothesis with a probability. A new number either
extends each run by one, or ends it: then a new regime begins, with a constant hazard.
Hypotheses that predicted the number badly lose weight. Within a regime numbers are normal with
unknown mean and variance, so a run predicts with a Student-t (normal-inverse-gamma prior).

Two uses: :func:`run_lengths` processes a whole sequence, as published; :func:`cut_upward` cuts
many sequences at their isolated upward spikes, such as step gaps.

References
----------
R. P. Adams, D. J. C. MacKay, "Bayesian Online Changepoint Detection", arXiv:0710.3742 (2007),
algorithm 1. K. P. Murphy, "Conjugate Bayesian analysis of the Gaussian distribution" (2007),
section 6, for the updates and the predictive density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Prior:
    """The prior of a regime before its first number (normal-inverse-gamma).

    Attributes
    ----------
    mean : expected level.
    kappa : certainty of that level, in observations; > 0.
    alpha : certainty of the spread, in half observations; > 0.
    beta : ``alpha`` times the expected variance; > 0.
    """

    mean: float
    kappa: float
    alpha: float
    beta: float

    @property
    def numbers(self) -> Numbers:
        """The four numbers in the form for compiled code."""
        return (self.mean, self.kappa, self.alpha, self.beta)


@dataclass(frozen=True)
class CutRule:
    """When a change counts as a cut; ``prune`` and ``most`` as in :func:`run_lengths`."""

    hazard: float
    threshold: float
    prune: float = 1e-6
    most: int = 64


@dataclass(frozen=True)
class RunLengths:
    """The run-length posterior of a sequence, summarised point by point.

    Attributes
    ----------
    short : P(run length <= ``k`` | numbers so far), shape (n,).
    most_likely : run length of highest probability, shape (n,).
    dropped : probability dropped at each point, shape (n,).
    """

    short: Floats
    most_likely: Ints
    dropped: Floats


def run_lengths(
    values: Floats, prior: Prior, hazard: float, k: int = 1, prune: float = 1e-6, most: int = 64
) -> RunLengths:
    """Follow ``values`` and summarise the run-length posterior after each.

    Parameters
    ----------
    values : shape (n,).
    hazard : probability that a regime ends at any one point, in (0, 1).
    k : the longest run length that counts as short.
    prune : the least likely hypotheses, of at most this total probability, are dropped at
        each point; 0 drops none.
    most : maximum number of hypotheses; beyond it the least likely one is dropped, whose
        probability is at most ``1 / most``. The dropped probability is returned point by point; a
        hypothesis dropped at probability p would, in expectation under the model, never
        have had more than p (posterior probabilities are martingales).

    Notes
    -----
    The convention is that of the paper: after a number, run length 0 means that a new regime
    begins with the *next* number. So P(run length = 0) equals the hazard at every point,
    and a regime that began *with* the present number has run length 1.

    >>> runs = run_lengths(np.array([0.0, 0.1, 0.0, 0.1, 9.0]), Prior(0, 0.01, 5, 0.05), 0.05)
    >>> runs.most_likely
    array([1, 2, 3, 4, 1])
    """
    return RunLengths(*follow(_floats(values), prior.numbers, hazard, k, (prune, most)))


def cut_upward(
    values: Floats,
    offsets: Ints,
    usual: Prior,
    spike_mean: Floats,
    spike_kappa: Floats,
    rule: CutRule,
) -> Floats:
    """Find the upward spikes of many sequences.

    A number is a spike if P(run length <= 1) exceeds the threshold and the number is
    above the expectation of the most likely run. The detector then restarts with the next
    number: the spike belongs neither to the regime before it nor to the one after it, and
    the return to normal is not a second change. The first number after a start cannot be a
    spike, since there is nothing to compare it with.

    Parameters
    ----------
    values : all sequences, concatenated, shape (n,).
    offsets : sequence g is ``values[offsets[g]:offsets[g + 1]]``, shape (groups + 1,).
    usual : prior of the regime that begins after a spike.
    spike_mean, spike_kappa : the level of a spike, and its certainty, by
        sequence, shape (groups,); alpha and beta are those of ``usual``.

    Returns
    -------
    Shape (n,): P(run length <= 1) at a spike, 0 elsewhere.
    """
    longest = int(np.diff(offsets).max(initial=0))
    numbers = (rule.hazard, rule.threshold, rule.prune)
    spikes = (_floats(spike_mean), _floats(spike_kappa))
    return cut(_floats(values), offsets, usual.numbers, *spikes, numbers, longest, rule.most)


def _floats(values: Floats) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float64)
