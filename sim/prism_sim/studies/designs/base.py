"""The base of all designs: an ordered set of places, and the columns that describe them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

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
    """An ordered set of places.

    Attributes
    ----------
    draws : whether its values are drawn from ranges, so that each occurs once.
    """

    draws: ClassVar[bool] = False

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the study's table that it fills."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of its places."""

    @abstractmethod
    def places(self) -> Iterator[Place]:
        """Its places in their order, one by one."""
