"""The catalogue of all figures that can be bounded, compared, and listed.

It is assembled from the declarations of the parts (:mod:`prism_sim.score.declare`). Code that
takes the name of a figure (a bound on the command line, a study, the regression suite) checks it
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prism_sim.score.declare import Figure


@dataclass(frozen=True)
class Catalogue:
    """Figures in the order of the documents that contain them."""

    figures: tuple[Figure, ...]

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.figures)

    def find(self, name: str) -> Figure | None:
        """The entry of the figure ``name``; None if there is no such figure.

        A path without placeholders takes precedence.
        """
        fitting = (figure for figure in self.figures if figure.fits(name))
        return min(fitting, key=lambda figure: figure.path != name, default=None)

    def paths(self) -> list[str]:
        """All paths, for hints about an unknown name."""
        return [figure.path for figure in self.figures]

    def __add__(self, other: Iterable[Figure]) -> Catalogue:
        return Catalogue((*self.figures, *other))
