"""E2: is the type of each pair of ranks (DP or PP) recognised, and in how long a window?"""

from __future__ import annotations

from reproduction.base import Experiment
from reproduction.e2_pairs import page
from reproduction.e2_pairs.measure import NAME, measure, trials

E2 = Experiment(
    name=NAME,
    title="E2: types of pairs, by window and by noise",
    trials=trials,
    measure=measure,
    section=page.section,
    gaps=page.gaps,
    pictures=page.pictures,
)
