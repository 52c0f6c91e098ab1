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

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.run_hypotheses import Numbers, cut, follow


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
