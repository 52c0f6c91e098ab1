"""The text of paths: the switches in order, joined by ``|``, with ``?`` for one that is not known.

A message that is split has one text and several paths. If it is split in another way, the text
stays the same, but not the number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prism_sim.cluster.state import Int64s
from prism_sim.cluster.ways import UNKNOWN, UNKNOWN_HOP, Way


class PathNames:
    """Numbers of paths, and their texts.

    Parameters
    ----------
    switches : names of all switches.

    Attributes
    ----------
    texts : by number.
    """

    def __init__(self, switches: Sequence[str]) -> None:
        self.texts: list[str] = []
        self._switches = switches
        self._path_number: dict[tuple[int, ...], int] = {}
        self._text_number: dict[str, int] = {}
        self._split_paths: dict[int, Way] = {}
        self._numbers_of: dict[int, list[int]] = {}

    def note(self, path: str) -> int:
        """The number of the path with this text."""
        if path not in self._text_number:
            self._text_number[path] = len(self.texts)
            self.texts.append(path)
        return self._text_number[path]

    def first_numbers(self, numbers: Int64s) -> Int64s:
        """The first number of the text of each path; a path that is split may have several."""
        first = np.arange(len(self.texts))
        for number in self._split_paths:
            first[number] = self._text_number[self.texts[number]]
        known: Int64s = np.where(numbers >= 0, first[numbers], numbers)
        return known

    def parts_of(self, path: int) -> list[tuple[int, float]]:
        """The paths over which the path with a number is split, and the share of each."""
        way = self._split_paths.get(path)
        if way is None:
            return [(path, 1.0)]
        first, last = way.switches[0], way.switches[-1]
        paths = [self.of((first, *switches, last)) for switches in way.crossed]
        return list(zip(paths, way.shares, strict=True))

    def of(self, switches: tuple[int, ...]) -> int:
        """The number of the path over ``switches``."""
        if switches not in self._path_number:
            names = [UNKNOWN_HOP if s == UNKNOWN else self._switches[s] for s in switches]
            self._path_number[switches] = self.note("|".join(names))
        return self._path_number[switches]

    def of_way(self, way: Way) -> int:
        """The number of the path of ``way``; one that is split in a new way has a new number."""
        number = self.of(way.switches)
        if way.spread is None:
            return number
        numbers = self._numbers_of.setdefault(number, [number])
        for known in numbers:
            other = self._split_paths.setdefault(known, way)
            if (other.crossed, other.shares) == (way.crossed, way.shares):
                return known
        self.texts.append(self.texts[number])
        numbers.append(len(self.texts) - 1)
        self._split_paths[numbers[-1]] = way
        return numbers[-1]
