"""One rank that is slow again and again is one finding.

A fault that comes and goes leaves several stretches of slow steps, and single slow steps beside
them. The steps around one stretch are slow in part themselves, so they do not show what a step
takes, and one stretch is not all that the fault costs. So all steps in which the rank is slow are
compared with all others. The steps of one stretch at least have to be longer than those around it,
and the others have to be about as long.

Where the steps between two stretches are about as long, the fault lasted: it did not show in each
of them, as in work that is unevenly divided, by chance a little more evenly.

What comes and goes stays for about as long each time. So a stretch is a fault of its own that lasts
for several times as many steps as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.faults.suspects.cost import cost_at, with_neighbours
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Ints
from llmprism.numerics.missing import finite_median

LONG = 0.5  # of what the steps of a stretch are longer: those of another one that costs as well
ALIKE = 3  # times as many steps as another stretch of the same fault has


def repeated(suspects: Sequence[Suspect]) -> list[Suspect]:
    """``suspects``, of which the stretches of one culprit that show the same are one."""
    kept: list[Suspect] = []
    for one in suspects:
        place = next((i for i, old in enumerate(kept) if _one_stretch(old, one)), None)
        if place is not None:
            kept[place] = _bridged(kept[place], one)
            continue
        place = next((i for i, old in enumerate(kept) if _again(old, one)), None)
        if place is None:
            kept.append(one)
        else:
            kept[place] = _joined(kept[place], one)
    return kept


def with_pauses(one: Suspect, pauses: Sequence[Suspect], others: Sequence[Suspect]) -> Suspect:
    """``one``, and the steps outside of its stretch in which the same rank pauses.

    Steps in which one of ``others`` is slow are long for that reason.
    """
    beside = [other for other in others if other.job is one.job and not other.may_be(one)]
    known = {step for other in (one, *beside) for step in steps_of(other).tolist()}
    for pause in pauses:
        more = set(steps_of(pause).tolist()) - known
        apart = pause.symptom == "pauses" and one.symptom != "pauses" and one.level == "rank"
        alike = bool(more) and _alike(steps_of(one), np.array(sorted(more)))
        if apart and alike and one.job is pause.job and set(pause.names) <= set(one.names):
            one = _joined(one, pause)
    return one


def steps_of(one: Suspect) -> Ints:
    """The steps in which a suspect is slow."""
    return np.array(one.evidence.get("steps", range(one.first, one.last + 1)), np.int64)


def _one_stretch(old: Suspect, one: Suspect) -> bool:
    """Whether the steps of two stretches are longer, and those between them as well."""
    about = [(each.job.name, each.level, each.symptom, each.cause, each.culprit, each.lost)
             for each in (old, one)]  # fmt: skip
    if about[0] != about[1] or old.level == "network" or old.lost is not None:
        return False
    both = _bridged(old, one)
    begin, end = min(old.last, one.last) + 1, max(old.first, one.first)
    bar = both.cost.normal_ns + LONG * (both.cost.slow_ns - both.cost.normal_ns)
    parts = (steps_of(old), steps_of(one), np.arange(begin, end))
    lengths_ns = [finite_median(old.job.duration_ns[steps]) for steps in parts if steps.size]
    return both.cost.believed and min(lengths_ns) > bar


def _bridged(old: Suspect, one: Suspect) -> Suspect:
    """Two stretches and the steps between them as one."""
    longer = max((old, one), key=lambda each: each.last - each.first)
    return replace(longer, first=min(old.first, one.first), last=max(old.last, one.last))


def _again(old: Suspect, one: Suspect) -> bool:
    """Whether ``one`` is the rank that ``old`` is, in other steps."""
    shown_alike = old.symptom == one.symptom and {old.level, one.level} == {"rank"}
    measured = old.lost is None or "steps" in old.evidence
    alike = measured and one.lost is None and _alike(steps_of(old), steps_of(one))
    return shown_alike and alike and one.job is old.job and one.may_be(old) and _as_long(old, one)


def _as_long(one: Suspect, other: Suspect) -> bool:
    """Whether the job is slower in one stretch, and its steps in the other are about as long."""
    for sure, more in ((one, other), (other, one)):
        if sure.is_believed:
            bar = sure.cost.normal_ns + LONG * (sure.cost.slow_ns - sure.cost.normal_ns)
            return finite_median(one.job.duration_ns[steps_of(more)]) > bar
    return False


def _alike(one: Ints, other: Ints) -> bool:
    """Whether the longest runs of steps are of about the same length."""
    longest = [
        max(run.size for run in np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1))
        for steps in (one, other)
    ]
    return max(longest) <= ALIKE * min(longest)


def _joined(old: Suspect, one: Suspect) -> Suspect:
    """Two stretches as one suspect, which is what the one that costs more is."""
    first = old if old.cost.lost_ns >= one.cost.lost_ns or one.symptom != old.symptom else one
    steps = with_neighbours(old.job, np.union1d(steps_of(old), steps_of(one)))
    return replace(
        first,
        first=int(steps[0]),
        last=int(steps[-1]),
        lost=cost_at(old.job, steps),
        evidence={**first.evidence, "steps": steps.tolist()},
        confidence=max(old.confidence, first.confidence),
    )
