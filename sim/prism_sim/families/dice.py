"""The random numbers of one drawn world, and the ranges that they come from.

Each quantity of a world has a stream of its own, whose key is the purpose of the quantity. So a
family that draws one more quantity keeps all others, and the same seed gives the same world.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
from pydantic import AfterValidator, Field

from prism_sim.draws import Coordinate, Draws
from prism_sim.scenario.base import Closed

T = TypeVar("T")
Number = TypeVar("Number", int, float)

DIGITS = 4
"""Significant digits of a drawn number: a scenario that is written out stays readable."""


def _ordered(span: tuple[Number, Number]) -> tuple[Number, Number]:
    if span[0] > span[1]:
        raise ValueError(f"{span[0]:g} to {span[1]:g} is no range: the first is larger")
    return span


Span = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""Lowest and highest value of a real quantity."""
Whole = Annotated[tuple[int, int], AfterValidator(_ordered)]
"""Lowest and highest value of a whole number."""
Share = Annotated[float, Field(ge=0, le=1)]
"""The probability of something."""


class Maybe(Closed):
    """A quantity that only a share of all worlds has."""

    share: Share = Field(description="Share of the worlds that have it.")
    span: Span = Field(description="Its lowest and highest value there.")


@dataclass(frozen=True)
class Dice:
    """Random numbers by purpose, below one key.

    >>> dice = Dice(Draws(1), ("example",))
    >>> dice.uniform("mfu", (0.3, 0.6)) == dice.uniform("mfu", (0.3, 0.6))
    True
    """

    draws: Draws
    key: tuple[Coordinate, ...]

    def below(self, *key: Coordinate) -> Dice:
        """The random numbers of a part of the world."""
        return Dice(self.draws, (*self.key, *key))

    def stream(self, purpose: str) -> np.random.Generator:
        """The generator of one quantity, from its beginning."""
        return self.draws.stream("family", *self.key, purpose)

    def uniform(self, purpose: str, span: tuple[float, float]) -> float:
        """A number that is uniform in ``span``."""
        return rounded(float(self.stream(purpose).uniform(*span)))

    def log_uniform(self, purpose: str, span: tuple[float, float]) -> float:
        """A number whose logarithm is uniform; ``span`` must lie above 0."""
        low, high = (math.log(bound) for bound in span)
        return rounded(math.exp(float(self.stream(purpose).uniform(low, high))))

    def whole(self, purpose: str, span: tuple[int, int]) -> int:
        """A whole number in ``span``, each one as likely."""
        return int(self.stream(purpose).integers(span[0], span[1] + 1))

    def log_whole(self, purpose: str, span: tuple[int, int]) -> int:
        """A whole number of at least 1 in ``span``; each doubling is about as likely."""
        low, high = math.log(span[0]), math.log(span[1] + 1)
        return min(span[1], int(math.exp(float(self.stream(purpose).uniform(low, high)))))

    def choice(self, purpose: str, options: Sequence[T]) -> T:
        """One of ``options``, each as likely."""
        return options[int(self.stream(purpose).integers(len(options)))]

    def weighted(self, purpose: str, weights: Sequence[float]) -> int:
        """The number of one of ``weights``, as likely as they say."""
        shares = np.array(weights, float)
        return int(self.stream(purpose).choice(len(weights), p=shares / shares.sum()))

    def happens(self, purpose: str, share: float) -> bool:
        """True with probability ``share``."""
        return bool(self.stream(purpose).random() < share)

    def maybe(self, purpose: str, maybe: Maybe | None) -> float | None:
        """A log-uniform value in a share of all worlds; else None."""
        if maybe is None or not self.happens(f"{purpose}?", maybe.share):
            return None
        return self.log_uniform(purpose, maybe.span)


def rounded(value: float) -> float:
    """``value`` with :data:`DIGITS` significant digits.

    >>> rounded(0.0123456)
    0.01235
    """
    return float(f"{value:.{DIGITS}g}")
