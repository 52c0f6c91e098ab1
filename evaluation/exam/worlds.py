"""The worlds of the exam: which ones there are, and their simulations.

A simulation depends on the scenario and on the code of the simulator alone, so it is kept, and
serves every method, every version of a method, and every worktree that shares the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from evaluation.paths import ROOT
from prism_common.files import replacing
from prism_sim.families import Family, bundled_families, draw, read_families
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.version import PACKAGE

FAMILIES = ROOT / "evaluation" / "families"
RESULTS = ROOT / "results" / "exam"
"""Where simulations and results are kept unless another folder is asked for."""
FIRST_SEED = 1000
"""Seed of the first world of each family."""

_SIMULATOR = ("cluster", "collector", "families", "faults", "scenario", "training", "world")


class World(NamedTuple):
    """One world, by its family and its seed."""

    family: str
    seed: int


@cache
def families() -> dict[str, Family]:
    """All families by name: those for development, then those for the exam."""
    return bundled_families() | read_families(FAMILIES)


def worlds(of: str, number: int, first_seed: int = FIRST_SEED) -> list[World]:
    """The first ``number`` worlds of every family of a set, one of each in turn."""
    names = [name for name, family in families().items() if of in (family.set, "all")]
    return [World(name, first_seed + n) for n in range(number) for name in names]


def scenario_of(world: World, below: Path | None = None) -> Scenario:
    """The scenario of a world.

    If faults have to cost enough, drawing it takes several simulations; so it is kept ``below`` a
    folder, if that is given.
    """
    family = families()[world.family]
    if below is None or family.faults.due is None:
        return Scenario.model_validate(draw(family, world.seed))
    text = json.dumps([simulator(), family.model_dump(mode="json"), world.seed], sort_keys=True)
    path = below / f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.json"
    if not path.exists():
        below.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_text(json.dumps(draw(family, world.seed)), encoding="utf-8")
    return Scenario.model_validate_json(path.read_text(encoding="utf-8"))


def simulated(scenario: Scenario, below: Path) -> Run:
    """The simulation of ``scenario`` below a folder; it is made if it is not there.

    It is made under another name and then renamed, so a folder that is there is complete, and
    several processes may ask for the same one.
    """
    values = scenario.model_dump(mode="json", exclude={"description"})
    text = json.dumps([simulator(), values], sort_keys=True)
    run = Run(below / hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    if not run.folder.exists():
        below.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".making-", dir=below))
        try:
            simulate(scenario, Run(aside / "run"))
            if not run.folder.exists():
                os.replace(aside / "run", run.folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return run


@cache
def simulator() -> str:
    """A hash of the code that simulates."""
    digest = hashlib.blake2b(digest_size=8)
    for part in _SIMULATOR:
        for path in sorted((PACKAGE / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
