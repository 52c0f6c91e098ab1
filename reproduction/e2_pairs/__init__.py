"""E2: is each pair of ranks recognised as data or pipeline parallel, and how soon?"""

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
