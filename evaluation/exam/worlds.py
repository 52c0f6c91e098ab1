"""The worlds of the exam: which ones there are, and their simulations.

A simulation depends on the scenario and on the code of the simulator alone, so it is kept below
``results/exam/worlds`` and serves every method, and every version of a method.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

from evaluation.paths import ROOT
from prism_sim.families import Family, bundled_families, draw, read_families
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.version import PACKAGE

FAMILIES = ROOT / "evaluation" / "families"
RESULTS = ROOT / "results" / "exam"
FIRST_SEED = 1000
"""Seed of the first world of each family."""

_SIMULATOR = ("cluster", "collector", "faults", "scenario", "training", "world")
_DONE = "done"


class World(NamedTuple):
    """One world, by its family and its seed."""

    family: str
    seed: int


@cache
def families() -> dict[str, Family]:
    """All families by name: those for development, then those for the exam."""
    return bundled_families() | read_families(FAMILIES)


def worlds(of: str, number: int) -> list[World]:
    """The first ``number`` worlds of every family of a set, one of each in turn."""
    names = [name for name, family in families().items() if of in (family.set, "all")]
    return [World(name, FIRST_SEED + n) for n in range(number) for name in names]


def scenario_of(world: World) -> Scenario:
    """The scenario of a world."""
    return Scenario.model_validate(draw(families()[world.family], world.seed))


def simulated(scenario: Scenario, below: Path) -> Run:
    """The simulation of ``scenario`` below a folder; it is made if it is not there."""
    values = scenario.model_dump(mode="json", exclude={"description"})
    text = json.dumps([simulator(), values], sort_keys=True)
    key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    run = Run(below / key)
    if not (run.folder / _DONE).exists():
        shutil.rmtree(run.folder, ignore_errors=True)
        simulate(scenario, run)
        (run.folder / _DONE).touch()
    return run


@cache
def simulator() -> str:
    """A hash of the code that simulates."""
    digest = hashlib.blake2b(digest_size=8)
    for part in _SIMULATOR:
        for path in sorted((PACKAGE / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
