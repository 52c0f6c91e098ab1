"""Distributions of durations; a new kind is a class and one entry below."""

from __future__ import annotations

from abc import abstractmethod
from math import gamma
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prism_sim.registry import Registry, by_literal, named
from prism_sim.scenario.base import Closed


class TimeBase(Closed):
    """A distribution of positive durations with a given mean."""

    @abstractmethod
    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        """``size`` durations with mean 1."""


class Exponential(TimeBase):
    """Durations without memory.

    A constant rate.
    """

    kind: Literal["exponential"] = "exponential"

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        return stream.exponential(size=size)


class Weibull(TimeBase):
    """Durations whose rate falls or rises with time.

    Shape 1 is exponential; below 1, failures come in bursts.
    """

    kind: Literal["weibull"] = "weibull"
    shape: float = Field(gt=0.2, le=10, description="exponent; 1 is exponential")

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        # From exponential draws, so that both kinds have common random numbers.
        return stream.exponential(size=size) ** (1 / self.shape) / gamma(1 + 1 / self.shape)


class Lognormal(TimeBase):
    """Durations with a long tail.

    The logarithm is normal with standard deviation ``sigma``.
    """

    kind: Literal["lognormal"] = "lognormal"
    sigma: float = Field(gt=0, le=4, description="standard deviation of the logarithm")

    def unit(self, stream: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
        return np.exp(self.sigma * stream.normal(size=size) - self.sigma**2 / 2)


TIMES: Registry[type[TimeBase]] = Registry(
    "prism_sim.operations.times", Exponential, Weibull, Lognormal, name_of=by_literal
)
"""Each kind by its name in a study."""


if TYPE_CHECKING:
    Time: TypeAlias = TimeBase
else:
    Time = named(TIMES)
