"""The base of all designs: an ordered set of places, and the columns that describe them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
