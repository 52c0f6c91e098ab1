"""Durations whose rate falls or rises with time."""

from __future__ import annotations

from math import gamma
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prism_sim.operations.times.base import TimeBase


class Weibull(TimeBase):
    """Shape 1 is exponential; below 1, failures come in bursts."""

    kind: Literal["weibull"] = "weibull"
    shape: float = Field(gt=0.2, le=10, description="exponent; 1 is exponential")

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        # From exponential draws, so that both kinds have common random numbers.
        return stream.exponential(size=size) ** (1 / self.shape) / gamma(1 + 1 / self.shape)
