"""Who else it may have been: the suspects that a finding was preferred to.

Of several suspects in the same steps one is named, and the others are explained by it. The evidence
names them after it, the surest first, since the choice may be wrong. So it does with the parts of
the network that explain slow transfers nearly as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.hops import culprit_of
from llmprism.methods.prism.faults.suspects import Suspect

SHARED = 0.5  # of the steps of a finding that another suspect has, too
NEARLY = 0.5  # of the score of the best part of the network
MOST = 3  # others that are named


def with_alternatives(
    context: Context, found: Sequence[Suspect], brought: Sequence[Suspect]
) -> list[Suspect]:
    """``found``, with the other culprits of ``brought`` that may be meant in ``one_of``."""
    return [_with_others(context, one, [o for o in brought if _beside(one, o)]) for one in found]


def _beside(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` was seen in most steps of ``one``, and explains what they take longer."""
    if other.job is not one.job or "stopped" in {one.symptom, other.symptom}:
        return False
    common = min(one.last, other.last) - max(one.first, other.first) + 1
    return other.is_believed and common > SHARED * (one.last - one.first + 1)


def _with_others(context: Context, one: Suspect, others: Sequence[Suspect]) -> Suspect:
    own = list(one.evidence.get("one_of", ())) or [one.culprit]
    names = [*_parts(context, one)]
    names += [each.culprit for each in sorted(others, key=lambda each: -each.confidence)]
    known = {*own, one.culprit}
    more = [name for name in dict.fromkeys(names) if name not in known][:MOST]
    return replace(one, evidence={**one.evidence, "one_of": [*own, *more]}) if more else one


def _parts(context: Context, one: Suspect) -> list[str]:
    """Parts of the network that explain nearly as much as the best one."""
    parts = one.evidence.get("suspects", ())
    score = [float(part["coverage"]) * float(part["purity"]) for part in parts]
    near = [part for part, own in zip(parts, score, strict=True) if own >= NEARLY * max(score)]
    return [culprit_of(context, str(part["name"]))[1] for part in near]
