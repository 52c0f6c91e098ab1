"""The k-sigma rule: values more than k standard deviations from the mean are outliers.

The published sigma, (1/n) * sum(l_i - mean), is identically zero (trap 1); the population
standard deviation replaces it. The rule is one-sided: high for durations, low for
bandwidth. As published, the outlier is part of the sample it is compared with, so it can
differ by at most sqrt(n - 1) sigma: 3 sigma are never exceeded for n < 11, nor by a fault that
affects a tenth of the sample equally (trap 2).

An outlier is an alarm, which concerns one step: a row of a data frame with the columns of
:data:`COLUMNS`. Alarms of one culprit in consecutive steps become one finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.model import UNKNOWN, Finding
from llmprism.numerics.arrays import Bools, Floats

K = 3.0  # as published
_ROUNDING = 1e-9  # relative; one outlier of ten values differs by exactly 3 sigma


@dataclass(frozen=True)
class Outliers:
    """Distance of each value, and the normal value of its sample; arrays of shape (n,).

    Attributes
    ----------
    distance : (value - mean) / sigma in the watched direction; 0 where sigma is 0.
    flagged : True where ``distance`` exceeds k.
    normal : mean of the sample's values that are not flagged.
    """

    distance: Floats
    flagged: Bools
    normal: Floats

    @property
    def confidence(self) -> Floats:
        """1 - 1 / (1 + distance ** 2), shape (n,).

        Cantelli's inequality: for any distribution, at most 1 / (1 + z ** 2) of it is z
        or more standard deviations above the mean.
        """
        return 1.0 - 1.0 / (1.0 + self.distance**2)


def k_sigma(
    values: Floats, sample: NDArray[Any], sign: float = 1.0, k: float = K, resolution: float = 0.0
) -> Outliers:
    """Compare every value with the sample it belongs to.

    Parameters
    ----------
    values : shape (n,).
    sample : number of the sample of each value, from 0, shape (n,).
    sign : +1 watches the high tail, -1 the low tail.
    resolution : deviations up to this are rounding of the measurement, not deviations.

    >>> steps = np.array([1.0] * 11 + [2.0])
    >>> np.flatnonzero(k_sigma(steps, np.zeros(12, int)).flagged)
    array([11])
    """
    count = np.maximum(np.bincount(sample), 1)
    mean = (np.bincount(sample, weights=values) / count)[sample]
    off = sign * (values - mean)
    sigma = np.sqrt(np.bincount(sample, weights=off**2) / count)[sample]
    real = (sigma > 0) & (np.abs(off) > resolution)
    distance = np.divide(off, sigma, out=np.zeros_like(off), where=real)
    flagged = distance > k * (1.0 + _ROUNDING)
    usual = np.maximum(np.bincount(sample, weights=~flagged), 1)
    normal = (np.bincount(sample, weights=np.where(flagged, 0.0, values)) / usual)[sample]
    return Outliers(distance, flagged, normal)


COLUMNS = (
    "job",  # number of the job
    "culprit",  # number of the culprit, of its kind
    "step",
    "start_ns",
    "end_ns",
    "value",  # the measured value,
    "normal",  # the normal value,
    "distance",  # and their distance in standard deviations
    "confidence",
    "excess_ns",  # time lost
)


def stretches(alarms: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the alarms of every series of consecutive steps of one culprit of one job."""
    rows = alarms.sort_values(["job", "culprit", "step"], kind="stable")
    same = rows[["job", "culprit"]].diff().eq(0).all(axis=1)
    opens = ~(same & rows["step"].diff().le(1))
    for _, stretch in rows.groupby(opens.cumsum(), sort=True):
        yield stretch


def finding(
    alarms: pd.DataFrame,
    level: str,
    symptom: str,
    culprit_kind: str,
    culprit: str,
    evidence: dict[str, object],
) -> Finding:
    """Make one finding from the alarms of one culprit, with the highest of their confidences.

    The published rules compare durations and rates. They find symptoms, but no causes.
    """
    normal = float(alarms["normal"].mean())
    return Finding(
        level=level,
        symptom=symptom,
        cause=UNKNOWN,
        job=int(alarms["job"].iloc[0]),
        culprit_kind=culprit_kind,
        culprit=culprit,
        first_step=int(alarms["step"].min()),
        last_step=int(alarms["step"].max()),
        start_ns=int(alarms["start_ns"].min()),
        end_ns=int(alarms["end_ns"].max()),
        magnitude=float(alarms["value"].mean()) / normal if normal else 1.0,
        cost=float(alarms["excess_ns"].sum()),
        confidence=float(alarms["confidence"].max()),
        evidence={
            "normal": normal,
            "measured": [round(value, 3) for value in alarms["value"].tolist()],
            "sigmas": [round(distance, 3) for distance in alarms["distance"].tolist()],
            **evidence,
        },
    )
