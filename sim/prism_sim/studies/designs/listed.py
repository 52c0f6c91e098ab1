"""A list: places that are written out, each with its own values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel

from prism_sim.studies.designs.base import Design, Place

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
