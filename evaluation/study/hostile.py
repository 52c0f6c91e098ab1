"""Hostile worlds: scenarios of ``scenarios/hostile``, with values drawn from ranges.

``scenarios/hostile.yaml`` holds the ranges. The values of a world depend on its family and seed
only, so a world can be drawn again alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import yaml

from evaluation.paths import ROOT
from prism_sim.toolkit import Scenario, load_scenario

FOLDER = ROOT / "scenarios" / "hostile"


def families() -> list[str]:
    """Names of the families, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def scenario_of(family: str, seed: int) -> Scenario:
    """The world of ``family`` with this seed."""
    return load_scenario(FOLDER / f"{family}.yaml", {"seed": seed, **drawn(family, seed)})


def drawn(family: str, seed: int) -> dict[str, Any]:
    """The drawn values of a world by their path."""
    ranges = yaml.safe_load(FOLDER.with_suffix(".yaml").read_text())
    wanted = ranges["all"] | (ranges["families"][family] or {})
    jobs = len(yaml.safe_load((FOLDER / f"{family}.yaml").read_text())["jobs"])
    random = np.random.default_rng([seed, *family.encode()])
    return {path: _value(wanted[key], random) for key in wanted for path in _paths(key, jobs)}


def _paths(key: str, jobs: int) -> Iterator[str]:
    if "*" in key:
        yield from (key.replace("*", str(job)) for job in range(jobs))
    else:
        yield key


def _value(allowed: Any, random: np.random.Generator) -> Any:
    if isinstance(allowed, list):
        return allowed[random.integers(len(allowed))]
    low, high = allowed["from"], allowed["to"]
    if isinstance(low, int) and isinstance(high, int):
        return int(random.integers(low, high + 1))
    return round(float(random.uniform(low, high)), 4)
