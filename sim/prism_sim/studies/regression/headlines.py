"""The headline figures of a suite: what a user of a diagnosis would notice.

Each is the mean of one figure of the score over the cases of a group that have it. Its direction is
that of the catalogue. Its tolerance is the change that a user would not notice, and the reason says
why. Runs are repeatable, so tolerances need not cover randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


GATES = (
    Gate("jobs exact", "jobs.accuracy", 0.0, "one job that is lost is a loss"),
    Gate("pairs right", "pairs.accuracy", 0.002, "a pair of 500 changes no group"),
    Gate("layouts exact", "parallelism.sizes_exact", 0.0, "one layout that is lost is a loss"),
    Gate("stages in order", "parallelism.stage_order", 0.0, "one wrong pipeline is a loss"),
    Gate("steps matched", "timeline.coverage", 0.001, "a rank's step of 1,000, at an edge"),
    Gate("step error", "timeline.step_error_all_mean", 3e-4, "a tenth of the 0.3 % of the paper"),
    Gate(
        "boundary error",
        "timeline.boundary_abs_error_ns_mean",
        20_000.0,
        "20 us: a fiftieth of the silence that ends a record, below the drift of NTP",
    ),
    Gate("culprit first", "faults.localized_top1", 0.0, "one culprit that is lost is a loss"),
    Gate("cause right", "faults.cause_accuracy", 0.0, "one wrong cause is a loss"),
    Gate("window", "faults.window_overlap", 0.02, "a fiftieth of a window, below one step of it"),
    Gate("cost error", "faults.cost_error", 0.005, "half of the one point that the pages promise"),
    Gate(
        "false findings",
        "faults.false_alarms_per_1000_job_steps",
        0.0,
        "one more false finding is a loss",
    ),
)
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
