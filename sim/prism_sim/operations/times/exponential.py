"""Durations without memory."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from prism_sim.operations.times.base import TimeBase


class Exponential(TimeBase):
    """A constant rate."""

    kind: Literal["exponential"] = "exponential"

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        return stream.exponential(size=size)
