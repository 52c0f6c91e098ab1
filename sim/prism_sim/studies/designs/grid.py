"""A grid: every combination of some values of some paths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel

from prism_sim.studies.designs.base import Design, Place

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
