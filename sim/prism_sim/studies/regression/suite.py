"""Reads a suite: which scenarios run with which seeds and methods, and how they are grouped."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from llmprism.defaults import METHOD
from prism_common.errors import Problem, UserError
from prism_sim.loading.closed import read_closed
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Closed
from prism_sim.studies.reading import known_methods, scenario_at


class Entry(Closed):
    """One scenario of a suite, with every seed and method."""

    scenario: str = Field(description="A file, relative to the suite, or a bundled scenario.")
    seeds: tuple[int, ...] = Field(min_length=1, description="Seeds to run it with.")
    group: str = Field(default="all", min_length=1)
    """Cases of a group have their figures together."""
    methods: tuple[str, ...] = Field(default=(METHOD,), min_length=1)
    """Methods. Default: the default method."""
    set: dict[str, Any] = Field(default={})
    """Values by dotted path, such as jobs.0.dp, set in the scenario."""
    label: str = ""
    """Distinguishes several entries of the same scenario."""


class Suite(Closed):
    """The content of a regression suite."""

    description: str = Field(default="", description="Purpose of the suite.")
    cases: tuple[Entry, ...] = Field(min_length=1, description="Scenarios, seeds and methods.")


@dataclass(frozen=True)
class Case:
    """One scenario with one seed, simulated once and diagnosed by each of the ``methods``."""

    name: str
    group: str
    scenario: Scenario
    methods: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """Hash of what was written for this case: a default that changes does not change it."""
        written = self.scenario.model_dump(
            mode="json", exclude_unset=True, exclude={"name", "description"}
        )
        return short_hash([self.name, self.group, self.methods, written])


def short_hash(content: Any) -> str:
    """A hash of ``content``, which JSON can represent."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def read_suite(path: Path) -> list[Case]:
    """The cases of the suite at ``path``.

    Raises
    ------
    UserError : errors of the suite, or of a scenario that it names.
    """
    suite, source = read_closed(path, Suite)
    known_methods(method for entry in suite.cases for method in entry.methods)
    cases: list[Case] = []
    for index, entry in enumerate(suite.cases):
        for seed in entry.seeds:
            overrides = {**entry.set, "seed": seed}
            at = ("cases", index)
            scenario = scenario_at(entry.scenario, path.parent, overrides, source, at)
            label = f" ({entry.label})" if entry.label else ""
            name = f"{entry.scenario}{label} seed {seed}"
            cases.append(Case(name, entry.group, scenario, entry.methods))
    _refuse_twins(cases, source.file)
    return cases


def _refuse_twins(cases: list[Case], file: str) -> None:
    names = [case.name for case in cases]
    twins = sorted({name for name in names if names.count(name) > 1})
    problems = [Problem(f"the case {name!r} occurs twice", file, "add label") for name in twins]
    if problems:
        raise UserError(problems)
