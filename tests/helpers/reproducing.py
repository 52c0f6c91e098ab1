"""A reproduction of the paper that is killed and goes on, and an experiment without simulations."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from prism_sim.toolkit import Scenario
from processes import completed, started, wait_until
from reproduction import pages
from reproduction.base import Experiment, Result, Trial

ROOT = Path(__file__).parents[2]


def cases_of(folder: Path) -> dict[str, int]:
    """Every finished case, and when it was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out/cases").glob("*.json")}


def reproduce_after_a_kill(folder: Path, experiments: list[str]) -> None:
    """Kill a reproduction as soon as two cases are finished, and run it again to its end.

    ``before.json`` has the cases that were finished before, ``facts.json`` and ``errors.txt`` what
    the second run printed.
    """
    options = ["--reduced", "--seeds", "1", "--out", str(folder / "out"), "--processes", "2"]
    command = [sys.executable, "-m", "reproduction", *options, "--json"]
    command += ["--only", ",".join(experiments)]
    with started(command, ROOT) as process:
        wait_until(lambda: len(cases_of(folder)) >= 2)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    (folder / "before.json").write_text(json.dumps(cases_of(folder)))
    done = completed(command, ROOT, timeout_s=300)
    assert done.returncode == 0, done.stderr
    (folder / "facts.json").write_text(done.stdout)
    (folder / "errors.txt").write_text(done.stderr)


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    return [
        Trial("toy", f"seed {seed}", Scenario(seed=seed, cluster={"servers": 1}, jobs=()),
              {"reduced": reduced})
        for seed in seeds
    ]  # fmt: skip


def measure(trial: Trial) -> Result:
    if trial.scenario.seed == 3:
        raise ValueError("too large")
    return {"twice": 2 * trial.scenario.seed}


TOY = Experiment(
    "toy", "Toy: twice", trials, measure,
    section=lambda done: f"ours: {pages.with_range([d.result['twice'] for d in done])}\n",
    gaps=lambda done: [f"only {len(done)} worlds"],
)  # fmt: skip
"""An experiment without a simulation, which fails with seed 3."""
