"""Designs: which places of a study's space are run.

A *place* is a set of values in the scenario. A grid takes all combinations of values, a list takes
the places that are written out, variants are places with names, and a random design and a Latin
hypercube draw them. If a study has several designs, its places are all combinations of theirs.

A Latin hypercube divides each range into as many parts of equal probability as there are samples,
and takes one value from each part. It covers every range evenly with few samples.

The key of a draw is the seed of the design, the path and the number of the sample
(:mod:`prism_sim.draws`). So the values of a path do not depend on the order of the paths, or on the
other paths. A random design with more samples contains those of the smaller one, so these runs are
not repeated; the parts of a Latin hypercube change with its number of samples.

Reference: McKay, Beckman and Conover, A comparison of three methods for selecting values of input
variables in the analysis of output from a computer code, Technometrics 21 (1979).

A new design is a class here that derives from :class:`Design`, and one field of
:class:`prism_sim.studies.study.Study`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, RootModel, model_validator

from prism_sim.draws import Draws
from prism_sim.scenario.base import Closed

VARIANT = "variant"
"""The column that names a variant."""


@dataclass(frozen=True)
class Place:
    """One place of a design.

    Attributes
    ----------
    at : value of each column of the study's table.
    settings : values of the scenario, by dotted path.
    """

    at: dict[str, Any]
    settings: dict[str, Any]


class Design(ABC):
    """An ordered set of places."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the study's table that it fills."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of its places."""

    @property
    def drawn_scales(self) -> dict[str, str]:
        """The columns whose values are drawn from a range, and the scale of each: linear or log."""
        return {}

    @abstractmethod
    def places(self) -> Iterator[Place]:
        """Its places in their order, one by one."""


Values = Annotated[tuple[Any, ...], Field(min_length=1)]


class Grid(Design, RootModel[dict[str, Values]]):
    """Dotted paths and the values of each; an empty grid has one place, which changes nothing."""

    model_config = ConfigDict(frozen=True)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.root)

    @property
    def size(self) -> int:
        return math.prod(map(len, self.root.values()))

    def places(self) -> Iterator[Place]:
        for values in itertools.product(*self.root.values()):
            at = dict(zip(self.root, values, strict=True))
            yield Place(at, at)


Settings = dict[str, Any]


class PlaceList(Design, RootModel[Annotated[tuple[Settings, ...], Field(min_length=1)]]):
    """Places by their values; a path that a place leaves out keeps the value of the scenario."""

    model_config = ConfigDict(frozen=True)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for place in self.root for path in place))

    @property
    def size(self) -> int:
        return len(self.root)

    def places(self) -> Iterator[Place]:
        for settings in self.root:
            yield Place({path: settings.get(path) for path in self.columns}, settings)


class Variants(Design, RootModel[Annotated[dict[str, Settings], Field(min_length=1)]]):
    """Values of the scenario by the name of the variant, such as a set of telemetry."""

    model_config = ConfigDict(frozen=True)

    @property
    def columns(self) -> tuple[str, ...]:
        return (VARIANT,)

    @property
    def size(self) -> int:
        return len(self.root)

    def places(self) -> Iterator[Place]:
        for name, settings in self.root.items():
            yield Place({VARIANT: name}, settings)


_PURPOSE = "place of a study"


class Range(Closed):
    """The values that a path can get: all between two bounds, or some that are listed."""

    low: float | None = Field(default=None, description="Lowest value.")
    high: float | None = Field(default=None, description="Highest value.")
    scale: Literal["linear", "log"] = "linear"
    """log: every decade is as likely as every other."""
    whole: bool = Field(default=False, description="Whole numbers only.")
    values: tuple[Any, ...] | None = Field(default=None, min_length=1)
    """The values, in place of low and high."""

    @model_validator(mode="after")
    def _one_form(self) -> Range:
        if self.values is not None:
            if self.low is not None or self.high is not None:
                raise ValueError("give either values, or low and high")
        elif self.low is None or self.high is None:
            raise ValueError("give low and high, or values")
        elif not self.low < self.high:
            raise ValueError("low must be below high")
        elif self.scale == "log" and self.low <= 0:
            raise ValueError("with scale: log, low must be above 0")
        elif self.whole and (self.low % 1 or self.high % 1):
            raise ValueError("with whole: true, low and high must be whole numbers")
        return self

    def value(self, uniform: float) -> Any:
        """The value at a quantile in [0, 1).

        >>> Range(low=1, high=100, scale="log").value(0.5)
        10.0
        >>> [Range(low=1, high=3, whole=True).value(u) for u in (0.0, 0.5, 0.99)]
        [1, 2, 3]
        """
        if self.values is not None:
            return self.values[int(uniform * len(self.values))]
        low, high = float(self.low or 0), float(self.high or 0)
        if not self.whole:
            return self._between(low, high, uniform)
        return min(int(high), math.floor(self._between(low, high + 1, uniform)))

    def _between(self, low: float, high: float, uniform: float) -> float:
        if self.scale == "log":
            value: float = low * math.pow(high / low, uniform)
            return min(high, max(low, value))
        return low + uniform * (high - low)


class DrawnDesign(Closed, Design):
    """A number of places whose values are drawn."""

    samples: int = Field(ge=1, le=1_000_000, description="Number of places.")
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of the draws.")
    over: dict[str, Range] = Field(min_length=1)
    """Dotted paths and the range of each, such as {low: 1, high: 9}."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.over)

    @property
    def size(self) -> int:
        return self.samples

    @property
    def drawn_scales(self) -> dict[str, str]:
        return {path: wanted.scale for path, wanted in self.over.items()}

    def places(self) -> Iterator[Place]:
        uniforms = {path: self.uniforms(path) for path in self.over}
        for sample in range(self.samples):
            at = {
                path: wanted.value(float(uniforms[path][sample]))
                for path, wanted in self.over.items()
            }
            yield Place(at, at)

    @abstractmethod
    def uniforms(self, path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A quantile in [0, 1) for each sample of ``path``."""

    def independent(self, path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Independent quantiles; the first ones do not depend on the number of samples."""
        return Draws(self.seed).stream(_PURPOSE, path).random(self.samples)


class RandomDesign(DrawnDesign):
    """Places that are drawn independently."""

    def uniforms(self, path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        return self.independent(path)


class LatinHypercube(DrawnDesign):
    """Places that cover every range evenly."""

    def uniforms(self, path: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        part = Draws(self.seed).stream(f"{_PURPOSE}, part", path).permutation(self.samples)
        within: np.ndarray[Any, np.dtype[np.float64]] = self.independent(path)
        return np.minimum((part + within) / self.samples, np.nextafter(1.0, 0.0))
