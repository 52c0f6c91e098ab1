"""E1: does one minute of flows show which addresses form a job?"""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.e1_jobs import measure, page

E1 = Experiment(
    name="e1",
    title="E1: job recognition",
    trials=measure.trials,
    measure=measure.measure,
    section=page.section,
    gaps=page.gaps,
    pictures=page.pictures,
)
