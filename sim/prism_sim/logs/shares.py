"""How often each kind of failure occurs, from the published counts.

The stage has the shares of L4's study. Within a stage, kinds of hardware and platform have one half
and kinds of users and frameworks the other, each by its count: the study finds hardware and user
faults to predominate, and publishes no shares. Kinds of one symptom have their published ratio.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prism_sim.logs.config import Logs
from prism_sim.logs.failures import FAILURES, FailureKind

STAGES = {"launch": 0.213, "crash": 0.575, "hang": 0.166, "slow": 0.047}
"""L4 (arXiv 2503.20263), symptoms of 428 failures; its "others" are slow jobs here."""

_HALVES = ({"hardware", "platform"}, {"user", "framework"})

Kinds = Mapping[str, type[FailureKind]]


def kinds_of(options: Logs) -> dict[str, type[FailureKind]]:
    """The kinds that may be drawn."""
    if options.kinds is not None:
        return {name: FAILURES[name] for name in options.kinds}
    if options.population == "all":
        return dict(FAILURES)
    held_out = options.population == "exam"
    return {name: kind for name, kind in FAILURES.items() if kind.held_out == held_out}


def weights(kinds: Kinds) -> dict[str, float]:
    """The share of each kind among all failures.

    >>> one = weights({name: FAILURES[name] for name in ("nan_user", "nan_hardware")})
    >>> round(one["nan_hardware"] / one["nan_user"], 6)
    3.0
    """
    found = _by_counts(kinds)
    for symptom in {kind.symptom for kind in kinds.values()}:
        names = [name for name, kind in kinds.items() if kind.symptom == symptom]
        ratios = [kinds[name].ratio for name in names]
        if all(ratio is not None for ratio in ratios):
            total = sum(found[name] for name in names)
            whole = sum(ratio or 0.0 for ratio in ratios)
            found |= {n: total * (r or 0.0) / whole for n, r in zip(names, ratios, strict=True)}
    return _scaled(found, 1.0)


def share_of_symptom(kind: type[FailureKind]) -> float:
    """The share of ``kind`` among all failures of its symptom."""
    shares = weights(FAILURES)
    same = (name for name, other in FAILURES.items() if other.symptom == kind.symptom)
    return shares[kind.name] / sum(shares[name] for name in same)


def _by_counts(kinds: Kinds) -> dict[str, float]:
    found: dict[str, float] = {}
    for stage, share in STAGES.items():
        halves = [
            {n: k.count for n, k in kinds.items() if k.stage == stage and k.category in half}
            for half in _HALVES
        ]
        present = [half for half in halves if half]
        for half in present:
            found |= _scaled(half, share / len(present))
    return found


def _scaled(counts: Mapping[str, float], total: float) -> dict[str, float]:
    whole = sum(counts.values())
    return {name: count * total / whole for name, count in counts.items()}


def pick(shares: Mapping[str, float], number: float) -> str:
    """The name at ``number`` in [0, 1), where each name has a part as long as its share."""
    names, bounds = [*shares], np.cumsum([*shares.values()])
    place = int(np.searchsorted(bounds / bounds[-1], number, side="right"))
    return names[min(place, len(names) - 1)]
