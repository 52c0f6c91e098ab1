"""Declarations of figures, next to their computation.

Each part of a score is a frozen dataclass. The annotation of a field describes its figure: unit,
better direction, tolerance, and a description. Three things follow from these declarations: typed
access in Python, the keys of ``score.json`` (:mod:`prism_sim.score.encoding`), and the catalogue
of all figures (:class:`Catalogue`), in which code that takes the name of a figure (a bound on the
command line, a study, the regression suite) looks it up.

A figure is named by its path in ``score.json``: ``timeline.step_error_mean``. In a path of the
catalogue, a word in capitals is a placeholder: ``timeline.per_job.JOB.coverage``. The same
placeholder twice means the same name twice.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

FRACTION, COUNT, NS = "fraction", "count", "ns"
"""Units of figures."""

ROUNDING = 1e-6
"""Relative tolerance of a descriptive figure: the last digits may differ between machines."""


class Better(Enum):
    """Which direction of a figure is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEAR_ZERO = "near zero"
    DESCRIPTIVE = "descriptive"

    def badness(self, value: float) -> float:
        """A number that increases as the figure becomes worse (or, if descriptive, increases)."""
        if self is Better.HIGHER:
            return -value
        return abs(value) if self is Better.NEAR_ZERO else value


@dataclass(frozen=True)
class Figure:
    """One entry of the catalogue.

    Attributes
    ----------
    path : path in ``score.json``; words in capitals are placeholders.
    unit : ``fraction``, ``count``, ``ns``, ``s``, ``h``, or empty.
    better : the better direction.
    absolute, relative : tolerances of the value; the larger of the two applies.
    absent_is_zero : an entry of a table of counts that is left out if it is zero.
    """

    path: str
    about: str
    unit: str = COUNT
    better: Better = Better.DESCRIPTIVE
    absolute: float = 0.0
    relative: float = 0.0
    absent_is_zero: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether a direction is better."""
        return self.better is not Better.DESCRIPTIVE

    @property
    def has_upper_bound(self) -> bool:
        """Whether larger values are worse."""
        return self.better in (Better.LOWER, Better.NEAR_ZERO)

    @property
    def is_signed(self) -> bool:
        """Whether the value has a sign, and its absolute value is judged."""
        return self.better is Better.NEAR_ZERO

    @property
    def tolerance(self) -> tuple[float, float]:
        """Absolute and relative tolerance."""
        if self.better is Better.DESCRIPTIVE:
            return self.absolute, max(self.relative, ROUNDING)
        return self.absolute, self.relative

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        seen: set[str] = set()
        parts = []
        for part in self.path.split("."):
            if not part.isupper():
                parts.append(re.escape(part))
            else:
                parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>.+)")
                seen.add(part)
        return re.compile(r"\.".join(parts))

    def fits(self, name: str) -> bool:
        """Whether ``name`` is a figure of this entry.

        >>> Figure("jobs.JOB.exact", "").fits("jobs.alpha.exact")
        True
        """
        return self._pattern.fullmatch(name) is not None

    def names_in(self, name: str) -> dict[str, str]:
        """The names that stand for the placeholders of this entry in ``name``.

        >>> Figure("jobs.JOB.exact", "").names_in("jobs.alpha.exact")
        {'JOB': 'alpha'}
        """
        found = self._pattern.fullmatch(name)
        return found.groupdict() if found else {}

    def as_data(self) -> dict[str, Any]:
        """The entry for a JSON document."""
        absolute, relative = self.tolerance
        return {
            "figure": self.path,
            "unit": self.unit,
            "better": self.better.value,
            "tolerance_absolute": absolute,
            "tolerance_relative": relative,
            "about": self.about,
        }


@dataclass(frozen=True)
class Words:
    """A field that is not a figure: a name, or a list."""

    about: str


@dataclass(frozen=True)
class Table:
    """A dictionary whose keys are not fixed; the paths of ``figures`` are relative to it."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Named:
    """Dataclasses by name: a dictionary, or a list whose items have their name in a field."""

    placeholder: str


@dataclass(frozen=True)
class Joined:
    """A dataclass whose keys follow the field's own name and an underscore.

    Its figures are about ``subject`` and get the unit and the tolerances given here.
    """

    subject: str
    unit: str = ""
    absolute: float = 0.0
    relative: float = 0.0


Declaration = Figure | Words | Table | Named | Joined
"""Declaration of a field of a part of the score, in ``Annotated[type, declaration]``."""


def _judged(better: Better) -> Callable[..., Figure]:
    return partial(Figure, "", better=better)


higher, lower, near_zero = map(_judged, (Better.HIGHER, Better.LOWER, Better.NEAR_ZERO))
"""Figures whose larger values are better, smaller ones, and signed ones near zero."""
descriptive = _judged(Better.DESCRIPTIVE)
"""A figure that describes the run or the diagnosis: no direction is better."""


def right(about: str) -> Figure:
    """A fraction of right answers; its tolerance is 0.002."""
    return higher(about, FRACTION, absolute=2e-3)


Declared = tuple[str, Any, Declaration | None]
"""Name, type and declaration of a field."""


def declarations(part: type) -> tuple[Declared, ...]:
    """Every field of the dataclass ``part``, in order."""
    return _declarations(part)


@cache
def _declarations(part: type) -> tuple[Declared, ...]:
    hints = get_type_hints(part, include_extras=True)
    found = []
    for one in dataclasses.fields(part):
        kind, declaration = hints[one.name], None
        if get_origin(kind) is Annotated:
            kind, declaration = get_args(kind)[:2]
        found.append((one.name, kind, declaration))
    return tuple(found)


def declared(part: type, above: str = "") -> Iterator[Figure]:
    """Every figure that the dataclass ``part`` declares, with paths below ``above``."""
    for name, kind, declaration in declarations(part):
        path = f"{above}{name}"
        match declaration:
            case Figure():
                yield replace(declaration, path=path)
            case Table(figures):
                yield from (replace(entry, path=f"{path}.{entry.path}") for entry in figures)
            case Named(placeholder):
                yield from declared(get_args(kind)[-1], f"{path}.{placeholder}.")
            case Joined():
                yield from _joined(kind, path, declaration)
            case None:
                yield from declared(kind, f"{path}.")


def _joined(part: type, path: str, of: Joined) -> Iterator[Figure]:
    for figure in declared(part, f"{path}_"):
        yield replace(
            figure,
            about=f"{of.subject}: {figure.about}",
            unit=of.unit,
            absolute=of.absolute,
            relative=of.relative,
        )


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
