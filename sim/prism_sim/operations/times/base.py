"""The contract of a distribution of durations."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from prism_sim.scenario.base import Closed


class TimeBase(Closed):
    """A distribution of positive durations with a given mean."""

    @abstractmethod
    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        """``size`` durations with mean 1."""
