"""Which way a figure should go, and how far it may stray before that counts.

Figures go by name; the first rule whose pattern (as in a shell) fits is the one. Runs are
repeatable to the last bit, so tolerances need not cover chance. They cover another machine's
or library's last digits, and the least that a reader of the figure would care about:

======================  =======================  =====================================
figures                 better                   tolerance
======================  =======================  =====================================
biases                  nearer to zero           2 % of the value, and the error's own
errors (fractions)      lower                    2 % of the value or 0.0002
errors [ns]             lower                    2 % of the value or 1 us
false alarms, missing   lower                    none
fractions right         higher                   0.002
pairs told as they are  higher                   none
pairs told otherwise    lower                    none
findings right          higher                   none
steps matched           higher                   0.2 %
all others              neither: they describe   1e-6 of the value
                        the world or the answer
======================  =======================  =====================================

A figure of the last row that moves is neither better nor worse, and fails all the same: a change
of the world or of what is said about it is to be seen, and taken over by ``--update`` if it is
wanted.

Tables of true against said kind (``pairs.confusion.dp.pp`` and the like) have no entry where
nothing was counted. There an absent figure is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from llmprism.model import KINDS

Badness = Callable[[float], float]
"""How bad a value is; None in a rule: neither more nor less is better."""


def _lower(value: float) -> float:
    return value


def _higher(value: float) -> float:
    return -value


@dataclass(frozen=True)
class Rule:
    """What may become of the figures that ``pattern`` fits.

    Attributes
    ----------
    badness : what should not grow; None if any change counts.
    absolute, relative : how far the value may stray; the larger of the two holds.
    """

    pattern: str
    badness: Badness | None
    absolute: float = 0.0
    relative: float = 0.0

    def verdict(self, was: float, now: float) -> str:
        """``same``, ``lost``, ``gained``, or ``moved`` where neither way is better."""
        change = (self.badness or _lower)(now) - (self.badness or _lower)(was)
        if abs(change) <= max(self.absolute, self.relative * abs(was)):
            return "same"
        if self.badness is None:
            return "moved"
        return "gained" if change < 0 else "lost"


_ERROR, _NS, _RIGHT = 2e-4, 1000.0, 2e-3
_EXACT = 1e-6
_CONFUSION = "pairs.confusion*"

RULES: tuple[Rule, ...] = (
    Rule("truth.*", None, relative=_EXACT),
    Rule("*_bias_ns", abs, _NS, 0.02),
    Rule("*_bias", abs, _ERROR, 0.02),
    Rule("*_error_ns_*", _lower, _NS, 0.02),
    Rule("*_phantom_ns_mean", _lower, _NS, 0.02),
    Rule("*_error_*", _lower, _ERROR, 0.02),
    Rule("*false_alarms*", _lower),
    Rule("*steps_to_detect", _lower),
    *(Rule(f"{_CONFUSION}.{kind}.{kind}", _higher) for kind in KINDS),
    Rule(f"{_CONFUSION}.*", _lower),
    Rule("pairs.missing", _lower),
    Rule("pairs.spurious", _lower),
    Rule("*.steps_unexplained", _lower),
    Rule("*.steps_split", _lower, relative=_RIGHT),
    Rule("*.steps_merged", _lower, relative=_RIGHT),
    Rule("*.steps_missed", _lower, relative=_RIGHT),
    Rule("*.steps_matched", _higher, relative=_RIGHT),
    Rule("*accuracy*", _higher, _RIGHT),
    Rule("*coverage", _higher, _RIGHT),
    Rule("*precision", _higher, _RIGHT),
    Rule("*recall", _higher, _RIGHT),
    Rule("*localized*", _higher, _RIGHT),
    Rule("*cause_right", _higher),
    Rule("parallelism.groups_exact*", _higher, _RIGHT),
    Rule("*stage_order*", _higher, _RIGHT),
    Rule("*sizes_exact", _higher, _RIGHT),
    Rule("*.groups.*.exact", _higher),
    Rule("*.groups.*.ordered", _higher),
    Rule("jobs.exact", _higher),
    Rule("*true_alarms", _higher),
    Rule("*detected", _higher),
    Rule("*", None, relative=_EXACT),
)
"""The table above, in full. Order matters: the first that fits."""


def counts(figure: str) -> bool:
    """Whether ``figure`` is an entry of a table of counts, which has none where nothing fell.

    >>> counts("pairs.confusion.dp.pp"), counts("pairs.accuracy")
    (True, False)
    """
    return fnmatchcase(figure, f"{_CONFUSION}.*")


def rule_for(figure: str) -> Rule:
    """The rule that ``figure`` falls under.

    >>> rule_for("timeline.step_error_mean").pattern
    '*_error_*'
    """
    return next(rule for rule in RULES if fnmatchcase(figure, rule.pattern))
