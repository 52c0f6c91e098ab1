"""Tables that are made part by part, because they are larger than what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd

PART_ROWS = 1 << 22  # rows that are made together


@dataclass(frozen=True)
class InParts:
    """A table that is made when it is read.

    Attributes
    ----------
    make : makes its parts in order, at least one, each with the same columns and categories.
    """

    make: Callable[[], Iterator[pd.DataFrame]]

    @classmethod
    def of(cls, table: pd.DataFrame) -> InParts:
        """Return a whole table as its only part."""
        return cls(partial(iter, [table]))

    def frame(self) -> pd.DataFrame:
        """Return the whole table."""
        parts = list(self.make())
        return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
