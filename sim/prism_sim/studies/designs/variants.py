"""Variants: places with names, each with any number of values. The table has their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel

from prism_sim.studies.designs.base import VARIANT, Design, Place

Settings = dict[str, Any]


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
