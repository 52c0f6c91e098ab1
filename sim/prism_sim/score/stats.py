"""Summary of a set of errors: mean, median, tail, maximum, and bias.

An error is signed and relative, (inferred - true) / true. Its absolute value gives the mean and
the percentiles, its sign the bias, which distinguishes a method with errors in both directions
from one that is always late. Missing values are treated in two ways: the plain figures leave them
out, and the figures named ``all`` count them as an inferred time of zero, error 1 and sign -1.
A summary of nothing is ``None``, never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from prism_sim.score.declare import Joined, lower, near_zero
from prism_sim.score.load import Flags, Floats


@dataclass(frozen=True)
class Spread:
    """Mean, percentiles and maximum of the absolute values of some errors."""

    mean: Annotated[float | None, lower("mean")]
    p50: Annotated[float | None, lower("median")]
    p95: Annotated[float | None, lower("95th percentile")]
    p99: Annotated[float | None, lower("99th percentile")]
    max: Annotated[float | None, lower("largest")]

    @classmethod
    def of(cls, sizes: Floats) -> Spread:
        """The spread of ``sizes``, any unit."""
        if not len(sizes):
            return cls(None, None, None, None, None)
        p50, p95, p99 = (float(tail) for tail in np.percentile(sizes, [50.0, 95.0, 99.0]))
        return cls(float(sizes.mean()), p50, p95, p99, float(sizes.max()))


@dataclass(frozen=True)
class SignedSpread(Spread):
    """The same, and the signed mean."""

    bias: Annotated[float | None, near_zero("signed mean; below zero: too short")]

    @classmethod
    def of_errors(cls, errors: Floats) -> SignedSpread:
        """The spread of the absolute values of signed ``errors``, and their mean."""
        return cls(**vars(Spread.of(np.abs(errors))), bias=mean(errors))


@dataclass(frozen=True)
class RelativeErrors(SignedSpread):
    """Errors of matched steps, and of all steps, where an unmatched one counts as error 1."""

    all: Annotated[SignedSpread, Joined("with unmatched ones counted as 1", "", 0.0, 0.0)]

    @classmethod
    def between(cls, true: Floats, inferred: Floats) -> RelativeErrors:
        """Figures of (inferred - true) / true, unitless, for all true times above zero.

        Parameters
        ----------
        true, inferred : times [ns]; ``inferred`` is NaN if nothing was found.
        """
        defined = true > 0
        error = inferred[defined] / true[defined] - 1.0
        found = ~np.isnan(error)
        everything = SignedSpread.of_errors(np.where(found, error, -1.0))
        return cls(**vars(SignedSpread.of_errors(error[found])), all=everything)


def mean(values: Floats | Flags) -> float | None:
    """Mean; ``None`` without values."""
    return float(np.mean(values)) if len(values) else None


def ratio(part: float, whole: float) -> float | None:
    """``part / whole``; ``None`` if ``whole`` is zero."""
    return float(part / whole) if whole else None
