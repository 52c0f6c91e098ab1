"""Two formulas of the publication exactly as printed.

Only the traps use them. ``method="paper"`` uses corrected formulas, because these do not work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

K = 3.0
THRESHOLD = 0.95


def printed_sigma(values: Floats) -> float:
    """(1/n) sum(l_i - mean), as printed.

    >>> printed_sigma(np.array([1.0, 2.0, 9.0]))
    0.0
    """
    return float(np.sum(values - values.mean()) / values.size)


def printed_outliers(values: Floats) -> NDArray[np.bool_]:
    """Mark values that exceed the mean by more than three printed sigmas."""
    flagged: NDArray[np.bool_] = values > values.mean() + K * printed_sigma(values)
    return flagged


def change_probabilities(values: Floats, hazard: float) -> Floats:
    """P(run length = 0 | values so far) after each value, by algorithm 1 of Adams and MacKay.

    The model has normal values of unknown mean and variance, and a constant hazard. The prior is
    normal-inverse-gamma around the first value, with the weight of one observation. No run length
    is pruned.

    References
    ----------
    arXiv:0710.3742, algorithm 1, steps 3 to 7.
    """
    from scipy.special import gammaln

    spread = max(float(np.var(values)), 1e-12)
    begin = np.array([values[0], 1.0, 1.0, spread])  # mean, kappa, alpha, beta
    belief = begin[None, :]
    mass = np.ones(1)
    probabilities = np.empty(values.size)
    for at, x in enumerate(values):
        mean, kappa, alpha, beta = belief.T
        wide = 2 * beta * (kappa + 1) / kappa  # Student's t of 2 alpha degrees, its scale squared
        density = gammaln(alpha + 0.5) - gammaln(alpha) - 0.5 * np.log(np.pi * wide)
        density -= (alpha + 0.5) * np.log1p((x - mean) ** 2 / wide)
        joint = mass * np.exp(density)
        mass = np.concatenate(([hazard * joint.sum()], (1 - hazard) * joint))
        mass /= mass.sum()
        probabilities[at] = mass[0]
        more = np.stack(
            [
                (kappa * mean + x) / (kappa + 1),
                kappa + 1,
                alpha + 0.5,
                beta + kappa * (x - mean) ** 2 / (2 * (kappa + 1)),
            ],
            axis=1,
        )
        belief = np.concatenate([begin[None, :], more])
    return probabilities
