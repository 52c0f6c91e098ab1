"""Durations with a long tail."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prism_sim.operations.times.base import TimeBase


class Lognormal(TimeBase):
    """The logarithm is normal with standard deviation ``sigma``."""

    kind: Literal["lognormal"] = "lognormal"
    sigma: float = Field(gt=0, le=4, description="standard deviation of the logarithm")

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        return np.exp(self.sigma * stream.normal(size=size) - self.sigma**2 / 2)
