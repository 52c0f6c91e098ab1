"""Second faults of a job: what is slow while, or beside, something else is.

Most of what is seen at the same time as a fault is a view of that fault, and is explained by it
(:mod:`~.explanations`). A second fault shows in the steps (:mod:`~.suspects.at_once`). One that
lasts at another time makes healthy steps rare, so its steps are compared with those that nothing
else is seen in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprism.methods.prism.faults.causes.partners import doubted
from llmprism.methods.prism.faults.explanations import explained, outlasts
from llmprism.methods.prism.faults.suspects.at_once import are_both_there
from llmprism.methods.prism.faults.suspects.suspects import Suspect, common_steps

EVEN = 0.5
CLEAR = 6.0  # deviations of steps, twice as many as for a first one
SURE = 0.6  # confidence, at least: a second fault is rarer than one that is seen in two ways


def with_seconds(kept: Sequence[Suspect], brought: Sequence[Suspect]) -> list[Suspect]:
    """``kept``, and those of ``brought`` that are slow beside them, the surest first."""
    found = [*kept]
    for one in sorted(brought, key=lambda one: -one.confidence):
        own = [other for other in found if other.job is one.job]
        if own and one.confidence >= SURE and not any(one.may_be(other) for other in own):
            costed = beside(one, own)
            clear = costed.is_believed and costed.cost.deviations > CLEAR
            if clear and _is_another(costed, own) and _is_sure(costed, own):
                found.append(costed)
    return costing(found)


def costing(found: Sequence[Suspect]) -> list[Suspect]:
    """Those of ``found`` that cost their job something beside the others."""
    return [one for one in found if _costs_more(one, found)]


def _is_sure(one: Suspect, found: Sequence[Suspect]) -> bool:
    """Whether even odds remain for ``one`` beside ranks that are slow in the same steps."""
    return doubted([one, *found])[0].confidence >= EVEN


def _costs_more(one: Suspect, found: Sequence[Suspect]) -> bool:
    """Whether steps of ``one`` are longer than what others cost: surer ones that are slow at once.

    So do those that end before ``one``, if steps are no longer after that.
    """
    others = [
        other
        for other in found
        if other is not one
        and other.job is one.job
        and (
            other.confidence > one.confidence
            or not common_steps(one, other)
            or outlasts(one, other)
        )
    ]
    return beside(one, others).is_believed


def beside(one: Suspect, others: Sequence[Suspect]) -> Suspect:
    """``one``, with a cost that is its own while ``others`` of its job are slow."""
    stretches = {
        (other.first, other.last)
        for other in others
        if other is not one and other.job is one.job and other.symptom != "stopped"
    }
    return replace(one, beside=tuple(sorted(stretches - {(one.first, one.last)})))


def _is_another(one: Suspect, found: Sequence[Suspect]) -> bool:
    """Whether ``one`` is none of ``found`` seen in another way."""
    length_ns = one.job.between_ends_ns
    rest = [
        other
        for other in found
        if not are_both_there(length_ns, (one.first, one.last), (other.first, other.last))
    ]
    if any(common_steps(one, other) > 1 for other in rest):  # one may end as the other one begins
        return False
    return not explained(one, [one, *rest])
