"""How far a figure may move before that counts, and whether it became better or worse.

The catalogue of figures (:data:`prism_sim.studies.cases.CATALOGUE`) gives the direction and the
tolerance of each. Runs are repeatable to the last bit, so tolerances need not cover chance. They
cover the last digits of another machine or library, and the least that a reader would care about.

A descriptive figure that moves is neither better nor worse, and fails all the same: a change of
the world or of the answer must be seen, and is accepted by ``--update`` if it is wanted. So does
a figure that the catalogue does not have.
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
    """Whether ``name`` is an entry of a table of counts, which is absent where it is 0.

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
