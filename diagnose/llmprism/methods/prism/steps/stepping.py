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
from llmprism.methods.prism.cycles.counted_steps import counted_steps, hops_of
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.divisions import steps_from
from llmprism.methods.prism.cycles.halves import ends_of_pairs
from llmprism.methods.prism.cycles.orders import ends_of_orders
from llmprism.methods.prism.cycles.parts import TOLERANCES
from llmprism.methods.prism.cycles.seldom_updates import updates, updates_or_pauses
from llmprism.methods.prism.cycles.updates import holds_updates
from llmprism.methods.prism.parameters import EQUAL
from llmprism.methods.prism.steps.assignment import (
    CLEARER,
    UNCLEAR,
    assigned,
    borders_of,
    by_windows,
)
from llmprism.methods.prism.steps.equal_times import computes, equal_times, first_of_each
from llmprism.methods.prism.steps.proposals import extent, of_count, standing
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.methods.prism.steps.votes import QUALITY, agreement_of
from llmprism.numerics.arrays import Codes, Ints
from prism_common.early import INTS

DOUBT = 0.5  # of the quality of parts that may be steps or micro-batches
UNDIVIDED = 0.8  # quality of steps without a silence between them


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


def find_steps(
    component: Component, recorded_ns: tuple[int, int] | None = None, single: bool = False
) -> Stepping:
    """Find the steps of ``component``; a count of 0 where nothing repeats.

    ``recorded_ns``: when the records of all traffic begin and end [ns], if that is known.
    ``single``: whether each server has one rank.
    """
    classes = component.classes
    repeats = [RepeatedBytes(one.traffic) for one in classes]
    found = agreement_of(component, repeats, single)
    own = [_of_steps(divisions, found.count) for divisions in found.proposed]
    reference = max(range(len(own)), key=lambda i: standing(own[i]))
    best, lead = own[reference], classes[reference].traffic
    passes = any(one.passes for one in classes)
    ended = INTS if best is None else _ended(lead, best, found.every[reference], passes=passes)
    if not ended.size:
        counted = _counted(component, reference, best, (repeats[0], recorded_ns))
        if counted is not None:
            return counted
    if best is None:
        return _without_steps(component)
    pauses = updates_or_pauses(found.proposed[reference], found.count)
    doubted = pauses and not holds_updates(lead, best)
    quality = DOUBT * best.quality if doubted or ended.size else best.quality
    if not ended.size:
        return _parted(component, quality, reference, own, found.proposed)
    best = steps_from(lead, ended)
    alone = [best if i == reference else None for i in range(len(own))]
    return _parted(component, max(best.quality, quality), reference, alone, [[] for _ in own])


def _parted(
    component: Component,
    quality: float,
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
    return Stepping(len(best), quality, reference, tuple(step_of), start, end)


def _ended(lead: Traffic, best: Division, proposed: list[Division], *, passes: bool) -> Ints:
    """First record of each step but the first, if the ``best`` parts are not those; else none.

    They may be parts of steps. Or they end within steps, which the order of the messages in finer
    parts shows. Some traffic of the component may be that of a pipeline (``passes``), whose
    evaluations move messages in another order.
    """
    for ends_of in (updates, ends_of_pairs):
        ended = ends_of(lead, best)
        if ended.size:
            return ended
    if passes:
        return INTS
    ended = ends_of_orders(lead, best)
    if ended.size:
        return ended
    for finer in proposed:
        if len(finer) > len(best) and finer.quality >= QUALITY:
            ended = ends_of_orders(lead, finer)
            if ended.size and abs(ended.size + 1 - len(best)) <= 1:
                return INTS if np.isin(best.cuts, ended).all() else ended
    return INTS


def _without_steps(component: Component) -> Stepping:
    unknown = tuple(np.full(len(one.traffic), -1, np.int32) for one in component.classes)
    return Stepping(0, 0.0, -1, unknown, INTS, INTS)


def _counted(
    component: Component,
    reference: int,
    best: Division | None,
    given: tuple[RepeatedBytes, tuple[int, int] | None],
) -> Stepping | None:
    """Steps that are counted in bytes, where silences do not show them, or only parts of them.

    None if ``best``, the division of the class with the index ``reference``, has steps as parts.
    Evaluations move bytes between some steps, so equal bytes do not take equal times. ``given``:
    after how many bytes the records of the first class begin again, and when all records begin and
    end [ns].
    """
    classes, count = component.classes, 0 if best is None else len(best)
    repeats, recorded_ns = given
    if best is None or (best.clarity < UNCLEAR and not best.evaluated):
        equal = equal_times(classes, repeats, recorded_ns)
        step = equal.step_of
        several = best is not None and (
            step is None or step.max() + 1 >= count or (reference == 0 and equal.are_several(best))
        )
        if step is not None and not several:
            return _stepping(component, 0, step, UNDIVIDED)
        if best is None or (reference == 0 and equal.denies(count)):
            return _without_steps(component)
    step = _shifted(classes[reference].traffic, best, recorded_ns)
    if step is not None:
        return _stepping(component, reference, step, best.quality)
    largest = classes[0].traffic
    step = counted_steps(largest, hops_of(largest), 1 / count, None)
    if step is None or step.max() + 1 >= count:
        return None
    return _stepping(component, 0, step, best.quality)


def _shifted(lead: Traffic, best: Division, recorded_ns: tuple[int, int] | None) -> Codes | None:
    """Step of each record of the reference, if its equal parts begin within steps; None if not.

    The longest silence of sharded parameters may be between a forward and a backward pass. The
    first part is then smaller than the others.
    """
    usual = float(np.median(best.volumes))
    partial = best.volumes[0] < (1 - EQUAL) * usual
    equal = best.tolerance <= TOLERANCES[0] and not best.evaluated
    begins = lead.start_ns[best.firsts]
    if not (partial and equal and best.clarity < CLEARER and computes(lead, begins)):
        return None
    return counted_steps(lead, hops_of(lead), usual / float(lead.size.sum()), recorded_ns)


def _stepping(component: Component, reference: int, step: Codes, quality: float) -> Stepping:
    """Steps of a component from the ``step`` of each record of the reference."""
    lead, count = component.classes[reference].traffic, int(step.max()) + 1
    start, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(start, step, lead.start_ns)
    np.maximum.at(end, step, lead.end_ns)
    borders = borders_of(component, start, end)
    others = [by_windows(one.traffic, borders, count) for one in component.classes]
    step_of = tuple(step if i == reference else own for i, own in enumerate(others))
    return Stepping(count, quality, reference, step_of, start, end)


def division_of(stepping: Stepping) -> Division:
    """The division of the reference's traffic into the steps that were found."""
    cuts = first_of_each(stepping.step_of[stepping.reference])[1:]
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
