"""The traps: points at which the published method fails, if it is used as printed."""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.traps import page
from reproduction.traps.measure import NAME, measure, trials

TRAPS = Experiment(
    name=NAME,
    title="Failure map of the published method",
    trials=trials,
    measure=measure,
    section=page.section,
    gaps=page.gaps,
    pictures=page.pictures,
)
