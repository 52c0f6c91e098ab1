"""Hostile worlds: scenarios of ``scenarios/hostile``, with values drawn from ranges.

``scenarios/hostile.yaml`` holds the ranges. The values of a world depend on its family and seed
only, so a world can be drawn again alone. Scripts that measure worlds save the result of each,
and measure only the missing ones.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from evaluation.paths import ROOT
from prism_sim.toolkit import (
    Content,
    Piece,
    Scenario,
    default_processes,
    do_missing,
    fingerprint,
    kept_content,
    load_scenario,
)

FOLDER = ROOT / "scenarios" / "hostile"


class World(NamedTuple):
    """One drawn world."""

    family: str
    seed: int


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


def results_of(
    worlds: Sequence[World], measure: Callable[[World], Content], saved: Path, scripts: list[Path]
) -> dict[World, Any]:
    """The ``result`` that ``measure`` returns for each world; those in ``saved`` are kept.

    ``scripts`` are the files that a result depends on. If a world fails, the program ends.
    """
    pieces = [Piece(key_of(one, scripts), f"{one.family} {one.seed}", one) for one in worlds]
    do_missing(
        measure, pieces, saved, default_processes(), lambda _, text: print(text, file=sys.stderr),
        total=len(pieces), result="result",
    )  # fmt: skip
    kept = {piece: kept_content(saved, piece.key) for piece in pieces}
    failed = [f"{piece.name}: {one['error']}" for piece, one in kept.items() if "error" in one]
    if failed:
        raise SystemExit("\n".join(failed))
    return {piece.task: one["result"] for piece, one in kept.items()}


def key_of(world: World, scripts: list[Path]) -> str:
    """Hash of everything that the result of ``world`` depends on."""
    scenario: object = world.family
    if world.family in families():
        scenario = scenario_of(*world).model_dump(mode="json", exclude={"description"})
    content = [fingerprint(), [path.read_text() for path in scripts], scenario]
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
