"""Checks of a scenario without running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prism_common.errors import Problem, UserError
from prism_common.quantities import counted
from prism_sim.commands.session import as_data
from prism_sim.loading.bundled import find
from prism_sim.loading.loader import load_with_warnings, parse_override


@dataclass(frozen=True)
class Verdict:
    """The result of checking one scenario.

    Attributes
    ----------
    summary : short description; empty if the scenario is wrong.
    """

    name: str
    summary: str = ""
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def line(self) -> str:
        """The verdict in one line."""
        wrong = counted(len(self.problems), "problem")
        return f"{self.name}: {wrong if self.problems else f'fine, {self.summary}'}"

    def as_data(self) -> dict[str, Any]:
        """The verdict for a JSON document."""
        return {
            "scenario": self.name,
            "valid": not self.problems,
            "problems": [as_data(problem) for problem in self.problems],
            "warnings": [as_data(warning) for warning in self.warnings],
        }


def verdict(name: str, settings: list[str]) -> Verdict:
    """Check the scenario file or bundled scenario ``name`` with ``settings`` applied."""
    try:
        overrides = dict(parse_override(text) for text in settings)
        loaded = load_with_warnings(find(name), overrides)
    except UserError as error:
        return Verdict(name, problems=error.problems)
    scenario = loaded.scenario
    ranks = sum(job.ranks for job in scenario.jobs)
    jobs, faults = counted(len(scenario.jobs), "job"), counted(len(scenario.faults), "fault")
    summary = f"{jobs} on {ranks} of {scenario.cluster.gpus} GPUs, {faults}"
    return Verdict(name, summary, warnings=loaded.warnings)
