"""Tolerance and direction of a changed figure.

The catalogue of figures (:data:`prism_sim.studies.cases.CATALOGUE`) gives the direction and the
tolerance of each. Runs are repeatable to the last bit, so tolerances need not cover randomness.
They cover the last digits on another machine or library, and changes too small to matter.

A descriptive figure that changes is neither better nor worse, but it fails: a change of the
simulation or of the diagnosis must be noticed, and is accepted with ``--update`` if it is
intended. So does a figure that is not in the catalogue.
"""

from __future__ import annotations

from prism_sim.score.declare import Figure
from prism_sim.studies.cases import CATALOGUE


def rule_for(name: str) -> Figure:
    """The entry of the catalogue for the figure ``name``, or a descriptive one.

    >>> rule_for("timeline.step_error_mean").better.value
    'lower'
    """
    return CATALOGUE.find(name) or Figure(name, "not in the catalogue")


def absent_is_zero(name: str) -> bool:
    """Whether ``name`` is an entry of a table of counts, which is absent if it is 0.

    >>> absent_is_zero("pairs.confusion.dp.pp"), absent_is_zero("pairs.accuracy")
    (True, False)
    """
    return rule_for(name).absent_is_zero


def verdict(name: str, was: float, now: float) -> str:
    """``same``, ``lost``, ``gained``, or ``moved`` where no direction is better.

    >>> verdict("timeline.steps_split", 0, 32), verdict("jobs.true", 2, 3)
    ('lost', 'moved')
    """
    rule = rule_for(name)
    change = rule.better.badness(now) - rule.better.badness(was)
    absolute, relative = rule.tolerance
    if abs(change) <= max(absolute, relative * abs(was)):
        return "same"
    if not rule.is_judged:
        return "moved"
    return "gained" if change < 0 else "lost"
