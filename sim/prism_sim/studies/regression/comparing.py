"""Compares the runs of a suite with its reference, and says what has changed: method or simulator.

A headline that moved is due to the simulator if a simulation of its group has drifted, and else to
the method (or to its score, which is part of the same code).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prism_sim.studies import rules
from prism_sim.studies.pool import Outcome
from prism_sim.studies.regression.headlines import Headline, headlines
from prism_sim.studies.regression.reference import Reference
from prism_sim.studies.regression.running import CaseRun, Figures
from prism_sim.studies.regression.suite import Case

FAILING = ("lost", "redefined")
"""Verdicts on a headline that fail."""

METHOD, SIMULATOR = "method", "simulator"
"""What a headline moved by."""


@dataclass(frozen=True)
class Move:
    """One headline beside its reference.

    Attributes
    ----------
    verdict : ``same``, ``gained``, ``lost``, ``new`` or ``redefined``.
    by : what it moved by: the method, or the simulator.
    """

    method: str
    group: str
    name: str
    was: float | None
    now: float | None
    verdict: str
    by: str = METHOD

    @property
    def failed(self) -> bool:
        return self.verdict in FAILING


@dataclass(frozen=True)
class RawMove:
    """A figure of one case that is not as it was; it passes."""

    case: str
    method: str
    figure: str
    was: float | None
    now: float | None
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """All that a suite says.

    Attributes
    ----------
    moves : every headline, those that did not move included.
    drifted : cases whose simulation is another one than in the reference.
    errors : reason of each case that gave no result.
    raw : raw figures that moved.
    raw_figures : number of all raw figures.
    took_s : time of each case [s].
    """

    moves: list[Move]
    drifted: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    raw: list[RawMove] = field(default_factory=list)
    raw_figures: int = 0
    took_s: dict[str, float] = field(default_factory=dict)

    @property
    def moved(self) -> list[Move]:
        """Headlines that are not as they were, the failing ones first."""
        moved = [move for move in self.moves if move.verdict != "same"]
        return sorted(moved, key=lambda move: not move.failed)

    @property
    def failed(self) -> bool:
        """Whether anything fails: a headline, a drift of a simulation, or an error."""
        return bool(self.errors or self.drifted or any(move.failed for move in self.moves))


def runs_of(found: Mapping[str, Outcome[CaseRun]]) -> dict[str, CaseRun]:
    """The runs that gave a result, by case name."""
    return {name: one.result for name, one in found.items() if one.result is not None}


def compare(
    cases: Iterable[Case], found: Mapping[str, Outcome[CaseRun]], reference: Reference
) -> Comparison:
    """Compare the outcomes ``found`` of ``cases`` with the ``reference``."""
    cases, runs = list(cases), runs_of(found)
    known = {name: run for name, run in runs.items() if name in reference.simulations}
    drifted = [
        name for name, run in known.items() if not run.simulation.is_as(reference.simulations[name])
    ]
    groups = {case.group for case in cases if case.name in drifted}
    raw = {
        (name, method): (reference.raw.get(name, {}).get(method, {}), figures)
        for name, run in runs.items()
        for method, figures in run.figures.items()
    }
    return Comparison(
        moves=_moves(reference.headlines, headlines(cases, runs), groups),
        drifted=drifted,
        errors={name: str(one.error) for name, one in found.items() if one.result is None},
        raw=[move for key, (was, now) in raw.items() for move in _raw_moves(*key, was, now)],
        raw_figures=sum(len(now) for _, now in raw.values()),
        took_s={name: run.took_s for name, run in runs.items()},
    )


def _moves(held: list[Headline], found: list[Headline], drifted: set[str]) -> list[Move]:
    before, after = {one.key: one for one in held}, {one.key: one for one in found}
    moves = []
    for key in {**after, **before}:
        old, new = before.get(key), after.get(key)
        verdict = "new" if old is None else "lost" if new is None else old.verdict_on(new)
        was, now = (None if one is None else one.value for one in (old, new))
        by = SIMULATOR if key[1] in drifted else METHOD
        moves.append(Move(*key, was, now, verdict, by))
    return moves


def _raw_moves(case: str, method: str, was: Figures, now: Figures) -> list[RawMove]:
    moves = []
    for figure in dict.fromkeys([*was, *now]):
        old, new = was.get(figure), now.get(figure)
        verdict = _raw_verdict(figure, old, new)
        if verdict != "same":
            moves.append(RawMove(case, method, figure, old, new, verdict))
    return moves


def _raw_verdict(figure: str, was: float | None, now: float | None) -> str:
    if rules.absent_is_zero(figure):
        was, now = was or 0, now or 0
    if was is None or now is None:
        return "same" if was is now else "new" if was is None else "lost"
    return rules.verdict(figure, was, now)


def as_data(comparison: Comparison, *, raw: bool) -> dict[str, Any]:
    """The comparison for a JSON document; raw figures that moved only if asked for."""
    data: dict[str, Any] = {
        "failed": comparison.failed,
        "headlines": [vars(move) for move in comparison.moves],
        "drifted": comparison.drifted,
        "errors": comparison.errors,
        "raw_figures": comparison.raw_figures,
        "took_s": comparison.took_s,
    }
    return data | ({"raw": [vars(move) for move in comparison.raw]} if raw else {})
