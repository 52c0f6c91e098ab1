"""Partners of a pipeline that look slow together: one of them is, and the other waits for it.

Some libraries move a message only when its receiver asks for it, so who sends to a busy rank
looks busy itself. Of two such partners the one that lost more, its waiting left out, is named
first, and the finding says that it may be the other ("X or Y").

So does a finding about two ranks on either side of one hop, which tells by how much one of them is
late and not which one.

Two faults at once are rarer than one that makes several ranks look slow. So of ranks that are slow
in the same steps each has as much of its confidence as it stands out from the others: its part of
what it and the strongest other one lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.faults.causes.late_ranks import SYMPTOM as LATE
from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.suspects.repeated import steps_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect, overlap

TOGETHER = 0.5  # share of the steps of one in which the other is slow too

EITHER = 0.5  # of the confidence in one of two that nothing distinguishes
DOUBT = 0.8  # of the confidence that remains


def joined(context: Context, suspects: Sequence[Suspect]) -> list[Suspect]:
    """``suspects``, of which those that are partners in the same steps are one."""
    kept: list[Suspect] = []
    for one in sorted(suspects, key=lambda one: -one.weight):
        partner = next((i for i, old in enumerate(kept) if _partners(context, one, old)), None)
        if partner is None:
            kept.append(one)
            continue
        old = kept[partner]
        named = [*old.evidence["one_of"], *one.evidence["one_of"]]
        evidence = {**old.evidence, "one_of": list(dict.fromkeys(named))}
        doubt = EITHER if _one_measurement(one, old) else DOUBT
        kept[partner] = replace(old, evidence=evidence, confidence=doubt * old.confidence)
    return kept


def doubted(suspects: Sequence[Suspect]) -> list[Suspect]:
    """``suspects``, with less confidence in ranks that are slow in the steps of other ranks."""
    found = []
    for one in suspects:
        rivals = [_lost(other) for other in suspects if other is not one and _rivals(one, other)]
        part = _lost(one) / (_lost(one) + max(rivals)) if rivals and _lost(one) > 0 else 1.0
        found.append(replace(one, confidence=part * one.confidence))
    return found


def _rivals(one: Suspect, other: Suspect) -> bool:
    """Whether two ranks of one job are slow in the same steps, mostly."""
    if one.job is not other.job or {one.level, other.level} != {"rank"}:
        return False
    own, common = steps_of(one), np.intersect1d(steps_of(one), steps_of(other))
    return "stopped" not in {one.symptom, other.symptom} and common.size >= TOGETHER * own.size


def _lost(one: Suspect) -> float:
    """What a rank lost of a step, or else what the steps of its job are longer."""
    return max(0.0, one.longer_share if one.lost_share is None else one.lost_share)


def _partners(context: Context, one: Suspect, other: Suspect) -> bool:
    """Whether two suspects are ranks of one pipeline, slow in the same steps."""
    if one.job is not other.job or {one.level, other.level} != {"rank"}:
        return False
    if one.lost is not None and one.symptom == "stopped":
        return False
    if _one_measurement(one, other):
        return True
    own, theirs = (_pipelines(context, each) for each in (one, other))
    return bool(own & theirs) and overlap(one, other) >= TOGETHER


def _one_measurement(one: Suspect, other: Suspect) -> bool:
    """Whether the same hop shows two ranks: they are late in the same steps, by the same time."""
    figures = [(each.first, each.last, each.symptom, each.weight) for each in (one, other)]
    return figures[0] == figures[1] and one.symptom == LATE


def _pipelines(context: Context, one: Suspect) -> set[int]:
    """Numbers of the pipelines of the ranks that a suspect names."""
    named = one.evidence.get("one_of", ())  # a stage may be among them
    codes = [context.topology.codes[name] for name in named if name in context.topology.codes]
    rows = np.searchsorted(one.job.phases.endpoints, np.array(codes, np.int64))
    return {number for number in one.job.pipelines.number[rows].tolist() if number >= 0}
