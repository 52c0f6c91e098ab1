"""A token lies outside the vocabulary."""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.failures.base import ACME, Category, Raises, script
from prism_sim.logs.scene import Scene
from prism_sim.logs.tools.python import Frame


class IndexRaised(Raises):
    """A token lies outside the vocabulary."""

    name: ClassVar[str] = "index_error"
    about: ClassVar[str] = "A token lies outside the vocabulary"
    symptom: ClassVar[str] = "index_error"
    category: ClassVar[Category] = "user"
    count: ClassVar[float] = 23
    source: ClassVar[str] = ACME

    def error(self, scene: Scene) -> tuple[str, Frame]:
        text = "IndexError: index 51203 is out of bounds for dimension 0 with size 51200"
        return text, script(
            scene,
            "data/indexed.py",
            402,
            "__getitem__",
            "return self.table[token]",
        )
