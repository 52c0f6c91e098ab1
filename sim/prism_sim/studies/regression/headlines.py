"""The headline figures of a suite: what a user of a diagnosis would notice.

Each is the mean of one figure of the score over the cases of a group that have it. Its direction is
that of the catalogue. Its tolerance is the change that a user would not notice, and the reason says
why. Runs are repeatable, so tolerances need not cover randomness.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prism_sim.score.declare import Better
from prism_sim.studies.regression.running import CaseRun, Figures, rounded
from prism_sim.studies.regression.suite import Case
from prism_sim.studies.rules import rule_for


@dataclass(frozen=True)
class Gate:
    """A figure of the score that a suite holds.

    Attributes
    ----------
    name : what it is, in words.
    figure : its path in ``score.json``.
    tolerance : absolute change of its mean that passes, in its own unit.
    reason : why not more and not less.
    """

    name: str
    figure: str
    tolerance: float
    reason: str


_DATA = tomllib.loads(Path(__file__).with_name("gates.toml").read_text(encoding="utf-8"))
GATES = tuple(Gate(**gate) for gate in _DATA["gate"])
"""All headline figures, in the order of an engineer's questions."""


@dataclass(frozen=True)
class Headline:
    """The value of one gate for a method and a group, and the rule that holds it."""

    method: str
    group: str
    name: str
    value: float
    better: str
    tolerance: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies it in a reference."""
        return self.method, self.group, self.name

    def verdict_on(self, now: Headline) -> str:
        """``same``, ``gained`` or ``lost``; ``redefined`` if ``now`` is held by another rule."""
        if (now.better, now.tolerance) != (self.better, self.tolerance):
            return "redefined"
        better = Better(self.better)
        change = better.badness(now.value) - better.badness(self.value)
        if abs(change) <= self.tolerance:
            return "same"
        return "gained" if change < 0 else "lost"


def headlines(cases: Iterable[Case], runs: Mapping[str, CaseRun]) -> list[Headline]:
    """The headlines of all methods and groups, of the ``runs`` by the name of their case."""
    together: dict[tuple[str, str], list[Figures]] = {}
    for case in (case for case in cases if case.name in runs):
        for method, figures in runs[case.name].figures.items():
            together.setdefault((method, case.group), []).append(figures)
    return [
        Headline(method, group, gate.name, mean, rule_for(gate.figure).better.value, gate.tolerance)
        for (method, group), of_cases in together.items()
        for gate in GATES
        if (mean := _mean(gate.figure, of_cases)) is not None
    ]


def _mean(figure: str, of_cases: Iterable[Figures]) -> float | None:
    values = [value for figures in of_cases if (value := figures.get(figure)) is not None]
    return rounded(sum(values) / len(values)) if values else None
