"""E4: an hour of switch bandwidth, with a fault that should raise an alert."""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.e4_switches import page
from reproduction.e4_switches.measure import NAME, measure, trials

E4 = Experiment(
    name=NAME,
    title="E4: an hour of switch bandwidth",
    trials=trials,
    measure=measure,
    section=page.section,
    gaps=page.gaps,
    pictures=page.pictures,
)
