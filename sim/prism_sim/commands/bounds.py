"""Bounds on figures of a score: ``jobs.accuracy=1``, ``timeline.steps_split<=0``.

A figure is named by its path in ``score.json``; ``prism-sim list figures`` lists all of them.
With ``>=`` or ``<=`` the value must not be below or above the bound. With ``=`` the catalogue
gives the direction: accuracies must not be below the bound, counts of mistakes not above it, and
the absolute value of a bias not above it. An undefined figure misses every bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prism_common.errors import Problem, UserError

if TYPE_CHECKING:
    from prism_sim.score import Score
    from prism_sim.score.declare import Figure

OPTION = "--fail-under"
_FORM = re.compile(r"(?P<path>.+?)\s*(?P<operator>>=|<=|=)\s*(?P<value>[^<>=]*)")


@dataclass(frozen=True)
class Bound:
    """The figure at ``path`` must be ``operator`` (``>=``, ``<=``, ``=``) ``value``."""

    path: str
    operator: str
    value: float

    def missed_by(self, score: Score) -> str | None:
        """The reason why ``score`` misses the bound; None if it does not.

        Raises
        ------
        UserError : the score has no such figure.
        """
        entry = self.entry()
        if self.path not in score.figures:
            known = [name for name in score.figures if entry.fits(name)]
            raise UserError(_unknown(self.path, known or list(score.figures)))
        value = score.figures[self.path]
        if value is None:
            return f"{self.path} is not defined for this run; required: {self._required(entry)}"
        reached = self._is_reached(value, entry)
        return None if reached else f"{self.path} is {value:g}; required: {self._required(entry)}"

    def entry(self) -> Figure:
        """The entry of the catalogue; a UserError if there is none, or if it has no direction."""
        from prism_sim.score import CATALOGUE

        entry = CATALOGUE.find(self.path)
        if entry is None:
            raise UserError(_unknown(self.path, CATALOGUE.paths()))
        if self.operator == "=" and not entry.is_judged and self.value <= 0:
            what = f"{self.path}={self.value:g} is always reached: no direction of it is better"
            how = f"write {self.path}<={self.value:g} or {self.path}>={self.value:g}"
            raise UserError(Problem(what, OPTION, how))
        return entry

    def _is_reached(self, value: float, entry: Figure) -> bool:
        if self._is_upper(entry):
            return (abs(value) if self._of_amount(entry) else value) <= self.value
        return value >= self.value

    def _is_upper(self, entry: Figure) -> bool:
        return self.operator == "<=" or (self.operator == "=" and entry.has_upper_bound)

    def _of_amount(self, entry: Figure) -> bool:
        return self.operator == "=" and entry.is_signed

    def _required(self, entry: Figure) -> str:
        words = "at most" if self._is_upper(entry) else "at least"
        amount = " in amount" if self._of_amount(entry) else ""
        return f"{words} {self.value:g}{amount}"


def parse_bound(text: str) -> Bound:
    """Read ``figure=bound``, ``figure>=bound`` or ``figure<=bound``; ValueError otherwise.

    >>> parse_bound("jobs.accuracy=1")
    Bound(path='jobs.accuracy', operator='=', value=1.0)
    >>> parse_bound("timeline.coverage>=0.99").operator
    '>='
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        form = "figure=bound, figure>=bound or figure<=bound, such as jobs.accuracy=1"
        raise ValueError(f"{text!r} is not of the form {form}")
    try:
        value = float(found["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{found['value']!r} in {text!r} is not a number")
    return Bound(found["path"], found["operator"], value)


def check_bounds(bounds: Iterable[Bound]) -> None:
    """Refuse bounds on figures that do not exist, all at once, before anything runs."""
    problems: list[Problem] = []
    for bound in bounds:
        try:
            bound.entry()
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)


def _unknown(path: str, known: Iterable[str]) -> Problem:
    from prism_sim.scenario.words import did_you_mean

    hint = did_you_mean(path, known)
    return Problem(f"there is no figure {path!r}", OPTION, f"{hint} See: prism-sim list figures")
