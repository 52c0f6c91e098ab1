"""What else may be the culprit of a finding: suspects that were found in the same steps.

Of several suspects in the same steps one is named, since it explains the others. This choice may be
wrong, so the evidence names the others after it, the surest first. It also names parts of
the network that explain slow transfers nearly as well, and ranks that lost as much time in the same
steps: one of them waited for the other, and merged or sampled records do not show which.

Ranks of the culprit's server and others are named in turn, since a reader looks at the first few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np

from llmprism.methods.prism.faults.context import Context
from llmprism.methods.prism.faults.lateness.own_time import lost_share
from llmprism.methods.prism.faults.measures.hops import culprit_of
from llmprism.methods.prism.faults.suspects.repeated import steps_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect, overlap
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.missing import nanmedian

SHARED = 0.5  # of the steps of a finding that another suspect has, too
NEARLY = 0.5  # of the score of the best part of the network
MOST = 3  # others that are named
AS_MUCH = 0.7  # of what the culprit lost in the same steps: a rank that may be it
DOUBT = 0.8  # of the confidence, if there is such a rank
EITHER = 0.5  # of the confidence in a server whose ranks are a whole stage


def with_alternatives(
    context: Context, found: Sequence[Suspect], brought: Sequence[Suspect]
) -> list[Suspect]:
    """``found``, with the other culprits of ``brought`` that may be meant in ``one_of``."""
    return [_with_others(context, one, [o for o in brought if _beside(one, o)]) for one in found]


def _beside(one: Suspect, other: Suspect) -> bool:
    """Whether ``other`` was seen in most steps of ``one``, and explains what they take longer."""
    if other.job is not one.job or "stopped" in {one.symptom, other.symptom}:
        return False
    return other.is_believed and overlap(one, other) > SHARED


def _with_others(context: Context, one: Suspect, others: Sequence[Suspect]) -> Suspect:
    own = list(one.evidence.get("one_of", ())) or [one.culprit]
    alike = _as_slow(context, one, own)
    surest = [each.culprit for each in sorted(others, key=lambda each: -each.confidence)]
    known = {*own, one.culprit}
    more = [name for name in (*_parts(context, one), *surest, *alike) if name not in known]
    named = [*own, *dict.fromkeys(more)]
    if one.level == "rank" and one.symptom != "stopped":
        named = _in_turn(context, one, named)
    elif not more:
        return one
    doubt = (DOUBT if alike else 1.0) * (EITHER if _may_be_stage(one) else 1.0)
    evidence = {**one.evidence, "one_of": named[: len(own) + MOST]}
    return replace(one, evidence=evidence, confidence=doubt * one.confidence)


def _may_be_stage(one: Suspect) -> bool:
    """Whether ``one`` is a server whose ranks are a whole stage, which may be what is slow."""
    return one.culprit_kind == "server" and "uneven_stage" in one.evidence.get("or_causes", ())


def _as_slow(context: Context, one: Suspect, own: Sequence[str]) -> list[str]:
    """Addresses of other servers that lost nearly as much as the culprit in the same steps."""
    lost = lost_share(context, one.job, cautious=False) if one.level == "rank" else None
    if lost is None or one.symptom == "stopped":
        return []
    ends = one.job.phases.endpoints
    names = [context.topology.addresses[end] for end in ends.tolist()]
    servers = context.topology.servers[ends]
    culprits = np.isin(names, list(own))
    longer = _longer(lost, steps_of(one))
    most = float(longer[culprits].max(initial=0.0))
    alike = ~np.isin(servers, servers[culprits]) & (longer >= AS_MUCH * most)
    if not most > 0 or alike.mean() > 0.5:
        return []
    return [names[row] for row in np.argsort(-longer, kind="stable").tolist() if alike[row]]


def _longer(lost: Floats, steps: Ints) -> Floats:
    """What each endpoint loses in ``steps`` beyond the others, in the middle; 0 if unknown."""
    inside = nanmedian(lost[:, steps], axis=1)
    outside = nanmedian(np.delete(lost, steps, axis=1), axis=1)
    longer: Floats = np.nan_to_num(inside - np.nan_to_num(outside))
    return longer


def _in_turn(context: Context, one: Suspect, names: Sequence[str]) -> list[str]:
    """``names``, those in the culprit's server and others in turn.

    Another server of which several addresses are meant is named in their place.
    """
    home = {name: _home(context, name) for name in names}
    count = Counter(home.values())
    own = [name for name in names if home[name] == home[names[0]] or name == one.culprit]
    rest = [name for name in names if name not in own]
    rest = [home[name] if home[name] and count[home[name]] > 1 else name for name in rest]
    both = zip_longest(own, dict.fromkeys(rest))
    return [name for turn in both for name in turn if name is not None]


def _home(context: Context, name: str) -> str:
    """The server of an address; nothing for other parts."""
    code = context.topology.codes.get(name)
    return "" if code is None else str(context.topology.endpoints[code].server)


def _parts(context: Context, one: Suspect) -> list[str]:
    """Names of the parts of the network that explain nearly as much as the best one."""
    return [culprit_of(context, str(part["name"]))[1] for part in nearly_best(one)]


def nearly_best(one: Suspect) -> list[Mapping[str, Any]]:
    """What is known of the parts of the network that explain nearly as much as the best one."""
    parts = one.evidence.get("suspects", ())
    score = [float(part["coverage"]) * float(part["purity"]) for part in parts]
    return [part for part, own in zip(parts, score, strict=True) if own >= NEARLY * max(score)]
