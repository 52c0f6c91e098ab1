"""The steps of one component: how many, and which records belong to which.

Each class of a component proposes divisions (:mod:`~llmprism.methods.prism.cycles.divisions`).
Training steps are common to all of them, so the number of parts that most classes agree on is the
number of steps.

Equal parts may still be too fine or too coarse: see :mod:`~llmprism.methods.prism.steps.coarser`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.steps.assignment import (
    CLEARER,
    assigned,
    borders_of,
)
from llmprism.methods.prism.steps.proposals import extent, of_count, standing
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.methods.prism.steps.votes import agreement_of
from llmprism.numerics.arrays import INTS, Codes, Ints


@dataclass(frozen=True)
class Stepping:
    """The steps of a component.

    Attributes
    ----------
    count : number of steps, 0 if flows show none.
    quality : of the reference's division, in [0, 1].
    reference : index of the class whose division is the reference.
    step_of : for each class the step of each of its records, -1 where unknown.
    start_ns, end_ns : of the reference's traffic in each step [ns], shape (count,).
    """

    count: int
    quality: float
    reference: int
    step_of: tuple[Codes, ...]
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True)
class Part:
    """A component and its steps."""

    component: Component
    stepping: Stepping


def find_steps(component: Component) -> Stepping:
    """Find the steps of ``component``; a count of 0 where nothing repeats."""
    classes = component.classes
    repeats = [RepeatedBytes(one.traffic) for one in classes]
    found = agreement_of(component, repeats)
    own = [_of_steps(divisions, found.count) for divisions in found.proposed]
    reference = max(range(len(own)), key=lambda i: standing(own[i]))
    best = own[reference]
    if best is None:
        return _without_steps(component)
    return _parted(component, reference, own, found.proposed)


def _parted(
    component: Component,
    reference: int,
    own: list[Division | None],
    proposed: list[list[Division]],
) -> Stepping:
    """Steps that are the parts of the reference; ``own`` has the division of each class, if any.

    ``proposed`` has all divisions of each class.
    """
    lead, best = component.classes[reference].traffic, own[reference]
    assert best is not None  # it shows the steps
    start, end = extent(lead, best)
    borders = borders_of(component, start, end)
    step_of = [
        assigned(one.traffic, division, lead, best, borders, others)
        for one, division, others in zip(component.classes, own, proposed, strict=True)
    ]
    return Stepping(len(best), best.quality, reference, tuple(step_of), start, end)


def _without_steps(component: Component) -> Stepping:
    unknown = tuple(np.full(len(one.traffic), -1, np.int32) for one in component.classes)
    return Stepping(0, 0.0, -1, unknown, INTS, INTS)


def division_of(stepping: Stepping) -> Division:
    """The division of the reference's traffic into the steps that were found."""
    cuts = np.flatnonzero(np.diff(stepping.step_of[stepping.reference])) + 1
    return Division(cuts, np.zeros(cuts.size + 1), np.inf, 0.0, 0.0, 1.0)


def _of_steps(own: list[Division], count: int) -> Division | None:
    """The division of a class into so many steps; None if one part fewer is clearly better.

    Where records end within a step, a class that moves late in steps has not moved in the last one.
    """
    division, fewer = of_count(own, count), of_count(own, count - 1)
    if division is None or fewer is None:
        return division
    worse = division.quality < (1 - EQUAL) * fewer.quality
    return None if worse and fewer.clarity >= CLEARER * division.clarity else division
