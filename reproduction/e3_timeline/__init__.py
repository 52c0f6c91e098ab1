"""E3: how exactly is the timeline of every rank of a large job inferred?"""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.e3_timeline import measure, page

E3 = Experiment(
    name="e3",
    title="E3: timeline",
    trials=measure.trials,
    measure=measure.measure,
    section=page.section,
    gaps=page.gaps,
    pictures=page.pictures,
)
