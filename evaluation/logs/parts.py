"""Making corpora and scoring them in parts; a part that is there is not made again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.logs.l4.counting import Library
from evaluation.logs.scoring import Case, learned, score
from evaluation.logs.worlds import score_world
from evaluation.paths import ROOT

PARTS = ROOT / "results/logs-scores"
_NODES = {"min_nodes": 4, "max_nodes": 8}
FAILURES = 30
"""Failed jobs of a part."""
POPULATIONS = ("open", "exam")
_CASES = 50
_DEVELOPED = 1000
"""Added to a seed for the corpus that the library of l4 learns from: open, never scored."""
_WORLDS = 1750
"""Added to a seed for the worlds with flows."""


def measure(failures: int, seed: int) -> dict[str, list[Case]]:
    """Scores of ``failures`` failed jobs of each population."""
    library = _library(seed)
    return {name: list(_parts(name, failures, seed, library)) for name in POPULATIONS}


def measure_worlds(worlds: int, seed: int) -> list[Case]:
    """Scores with flows of ``worlds`` simulated jobs; each has one fault, and no other has."""
    seeds = range(seed + _WORLDS, seed + _WORLDS + worlds)
    files = ((PARTS / f"world-{one}.json", one) for one in seeds)
    return [case for file, one in files for case in _kept(file, partial(_simulated, one))]


def _simulated(seed: int) -> list[Case]:
    with TemporaryDirectory() as folder:
        return list(score_world(seed, Path(folder)))


def make(run: Path, population: str, failures: int, seed: int) -> None:
    """Write a corpus with the command; each failed job has one successful job before it."""
    settings = {"failures": failures, "population": population, "successes": 1} | _NODES
    command = [sys.executable, "-m", "prism_sim", "logs", "logs/demo", "--seed", str(seed)]
    for name, value in settings.items():
        command += ["--set", f"logs.{name}={value}"]
    subprocess.run([*command, "--out", str(run), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def _parts(population: str, failures: int, seed: int, library: Library) -> Iterator[Case]:
    for number in range(-(-failures // FAILURES)):
        size = min(FAILURES, failures - number * FAILURES)
        part_seed = seed + number
        file = PARTS / f"{population}-{part_seed}-{size}.json"
        yield from _kept(file, partial(_scored, population, size, part_seed, library))


def _scored(population: str, size: int, seed: int, library: Library) -> list[Case]:
    with TemporaryDirectory() as folder:
        make(Path(folder) / "run", population, size, seed)
        return list(score(Path(folder) / "run", library))


def _kept(file: Path, scored: Callable[[], list[Case]]) -> list[Case]:
    """The content of ``file``; it is made if it is not there."""
    if not file.exists():
        _write(file, json.dumps(scored()))
    found: list[Case] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _library(seed: int) -> Library:
    file = PARTS / f"library-{seed}.json"
    if not file.exists():
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            make(run, "open", _CASES, seed + _DEVELOPED)
            library = learned(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        library.write(file)
    return Library.read(file)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
