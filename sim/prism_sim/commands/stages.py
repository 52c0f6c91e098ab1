"""The stages of a run, each leaving the run folder in a state that can be trusted.

A stage takes away its own earlier products and those of every stage after it before it
begins, so a folder never holds a score of one diagnosis beside another, nor a report of a
run that has been replaced; nothing else in the folder is touched. When a stage is done,
its time and the process's peak memory go into the manifest.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmprism.errors import Problem, UserError
from prism_sim.commands.session import Progress, Session
from prism_sim.products import PRODUCTS, clear

if TYPE_CHECKING:
    from llmprism.diagnosis import Diagnosis
    from prism_sim.loading.scenario import Scenario
    from prism_sim.run import Run


def simulate(session: Session, scenario: Scenario, run: Run, command: list[str]) -> None:
    """Simulate ``scenario`` into the folder of ``run``."""
    with _stage(session, run, "simulate") as progress:
        from prism_sim.simulate import simulate

        warnings = simulate(scenario, run, progress, command)
    session.warn(warnings)


def check_method(name: str) -> None:
    """Refuse a method that there is not, before any work is done for it."""
    from llmprism import methods

    methods.get(name)


def diagnose(session: Session, flows: Path, topology: Path, method: str, folder: Path) -> Diagnosis:
    """Diagnose a flow table, of a run or of anyone, into ``folder``.

    A folder called ``diagnosis`` is that of a run, whose score and report it outdates.
    """
    from prism_sim.run import Run

    run = Run(folder.parent)
    ours = folder.name == run.diagnosis_folder.name
    stage = _stage(session, run, "diagnose", method=method) if ours else session.stage("diagnose")
    with stage as progress:
        from llmprism.pipeline import diagnose_files

        diagnosis = diagnose_files(flows, topology, method=method, progress=progress)
        diagnosis.write(folder)
    return diagnosis


def score(session: Session, run: Run) -> dict[str, Any]:
    """Score the diagnosis of ``run`` and return ``score.json``."""
    with _stage(session, run, "score"):
        from prism_sim.score import score_run

        return score_run(run)


def report(session: Session, run: Run) -> None:
    """Render the figures, the trace and the report of ``run``."""
    with _stage(session, run, "report") as progress:
        from prism_sim.render import render_run

        render_run(run, progress)


def existing(folder: Path) -> Run:
    """The run in ``folder``; a UserError if there is no such folder."""
    from prism_sim.run import Run

    if not folder.is_dir():
        what = "there is no such run folder"
        raise UserError(Problem(what, str(folder), "name the folder of a run, results/NAME/SEED"))
    return Run(folder)


@contextmanager
def _stage(session: Session, run: Run, name: str, **facts: Any) -> Iterator[Progress | None]:
    clear(run.folder, name)
    began = time.perf_counter()
    with session.stage(name) as progress:
        yield progress
    _record(run, name, time.perf_counter() - began, facts)


def _record(run: Run, stage: str, seconds: float, facts: dict[str, Any]) -> None:
    """Note in the manifest what ``stage`` took; the manifest of a capture is left alone."""
    manifest = run.read_json(run.manifest) if run.manifest.exists() else {}
    if "timings_s" not in manifest:
        return
    manifest |= facts
    timings = manifest["timings_s"]
    later = [*PRODUCTS][[*PRODUCTS].index(stage) :]
    kept = {name: took for name, took in timings.items() if name not in later}
    manifest["timings_s"] = {**kept, stage: round(seconds, 3)}
    manifest["peak_memory_bytes"] = max(manifest.get("peak_memory_bytes", 0), _peak_memory_bytes())
    run.write_json(run.manifest, manifest)


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
