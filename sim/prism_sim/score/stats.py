"""How a set of errors is told: mean, median, tail, worst, and the bias beside every mean.

An error is signed and relative, (inferred - true) / true. Its size makes the mean and the
percentiles, its sign the bias, so that a method which is early as often as late and one
which is always late are told apart. What was not found counts twice: left out of the plain
figures, and as an inferred time of zero, error 1 and sign -1, in those named ``_all``.
Where there is nothing to tell the figure is ``None``, never NaN.
"""

from __future__ import annotations

import numpy as np

from prism_sim.score.load import Flags, Floats

Figures = dict[str, float | int | None]

_TAILS = {"p50": 50.0, "p95": 95.0, "p99": 99.0}


def spread(prefix: str, sizes: Floats) -> Figures:
    """``prefix`` + ``_mean``, ``_p50``, ``_p95``, ``_p99``, ``_max`` of ``sizes``, any unit."""
    names = ["mean", *_TAILS, "max"]
    if not len(sizes):
        return {f"{prefix}_{name}": None for name in names}
    tails = np.percentile(sizes, list(_TAILS.values()))
    values = [sizes.mean(), *tails, sizes.max()]
    return {f"{prefix}_{name}": float(value) for name, value in zip(names, values, strict=True)}


def _signed_spread(prefix: str, errors: Floats) -> Figures:
    """:func:`spread` of the sizes of signed ``errors``, and their mean as ``_bias``."""
    return spread(prefix, np.abs(errors)) | {f"{prefix}_bias": mean(errors)}


def relative_errors(prefix: str, true: Floats, inferred: Floats) -> Figures:
    """Figures of (inferred - true) / true, unitless, over what has a true time above zero.

    Parameters
    ----------
    true, inferred : times [ns]; ``inferred`` is NaN where nothing was found.
    """
    defined = true > 0
    error = inferred[defined] / true[defined] - 1.0
    found = ~np.isnan(error)
    everything = np.where(found, error, -1.0)
    return _signed_spread(prefix, error[found]) | _signed_spread(f"{prefix}_all", everything)


def mean(values: Floats | Flags) -> float | None:
    """Mean, or ``None`` of nothing."""
    return float(np.mean(values)) if len(values) else None


def ratio(part: float, whole: float) -> float | None:
    """``part / whole``, or ``None`` of a whole that is nothing."""
    return float(part / whole) if whole else None
