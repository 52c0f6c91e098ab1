"""The stages of a run. Each leaves the run folder in a consistent state.

A stage writes to a temporary folder and replaces its earlier files when it is complete (see
:mod:`prism_sim.products`). Its time and the peak memory of the process go into the manifest.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_common.errors import Problem, UserError
from prism_sim.commands.session import Progress, Session
from prism_sim.products import PRODUCTS, own_products, refuse_other_files, stage_files

if TYPE_CHECKING:
    from llmprism.diagnosis import Diagnosis
    from llmprism.isolation.runner import Limits
    from prism_sim.loading.scenario import Scenario
    from prism_sim.run_folder import Run
    from prism_sim.score import Score

_PARTS = ("flows.parquet", "diagnosis", "truth")  # a run has at least one of them
_LINE_EVERY_S = 10.0  # of progress, where stderr is no terminal


def note_compilation(session: Session) -> None:
    """Say why the first run on a machine takes longer."""
    from prism_common.compiled import must_be_compiled
    from prism_sim.cluster.core import advance

    if must_be_compiled(advance):
        session.note("compiling, on the first run on this machine ...")


def simulate(session: Session, scenario: Scenario, run: Run, command: list[str]) -> None:
    """Simulate ``scenario`` into the folder of ``run``."""
    with _stage(session, run.folder, "simulate") as (aside, progress):
        from prism_sim.simulate import simulate

        warnings = simulate(scenario, aside, progress, command)
    session.warn(warnings)


def logs(session: Session, scenario: Scenario, run: Run, command: list[str]) -> None:
    """Write the logs that ``scenario`` draws into the folder of ``run``."""
    with _stage(session, run.folder, "simulate") as (aside, progress):
        from prism_sim.simulate import write_drawn_logs

        write_drawn_logs(scenario, aside, progress, command)


def check_method(name: str) -> None:
    """Refuse an unknown method before any work starts."""
    from llmprism import methods

    methods.check(name)


def diagnose(
    session: Session,
    flows: Path,
    topology: Path,
    method: str,
    folder: Path,
    limits: Limits | None = None,
) -> Diagnosis:
    """Diagnose any flow table into ``folder``.

    ``limits`` are those of a method of another package.

    A folder called ``diagnosis`` belongs to the run around it, whose score and report become
    out of date.
    """
    from llmprism import methods

    in_run = folder.name == "diagnosis"
    home = folder.parent if in_run else folder
    if not in_run:
        refuse_other_files(folder)
    for path in methods.files_of(method):  # a module here goes before others
        session.note(f"method {method}: {path}")
    with _stage(session, home, "diagnose", method=method) as (aside, progress):
        from llmprism import pipeline
        from llmprism.isolation.runner import LIMITS

        diagnosis = pipeline.diagnose(
            flows, topology, method=method, progress=progress, limits=limits or LIMITS
        )
        diagnosis.write_files(aside.diagnosis_folder if in_run else aside.folder)
    return diagnosis


def adopt_tables(session: Session, run: Run, folder: Path) -> None:
    """Make the tables in ``folder`` the diagnosis of ``run``, however they were made."""
    from llmprism.pipeline import diagnosis_from_tables

    diagnosis = diagnosis_from_tables(folder, run.flows, run.topology)
    with _stage(session, run.folder, "diagnose", method=diagnosis.method) as (aside, _):
        diagnosis.write_files(aside.diagnosis_folder)


def score(session: Session, run: Run) -> Score:
    """Score the diagnosis of ``run``."""
    with _stage(session, run.folder, "score") as (aside, _):
        from prism_sim.score import score_run

        result = score_run(aside)
    from prism_sim.render.report import shows_another_score

    if shows_another_score(run):
        how = f"update it with: prism-sim report {run.folder}"
        session.warn([Problem("report.html shows an older score", str(run.report), how)])
    return result


def report(session: Session, run: Run) -> None:
    """Render the figures, the trace and the report of ``run``."""
    with _stage(session, run.folder, "report") as (aside, progress):
        from prism_sim.render import render_run

        render_run(aside, progress)


def existing(folder: Path) -> Run:
    """The run in ``folder``; a UserError if the folder does not exist, or has no part of a run."""
    from prism_sim.run_folder import Run

    if folder.is_dir() and any((folder / name).exists() for name in _PARTS):
        return Run(folder)
    what = f"there is no {' or '.join(_PARTS)} here" if folder.is_dir() else "no such run folder"
    how = "name the folder of a run, results/NAME/SEED, or one with flow records of your own"
    raise UserError(Problem(what, str(folder), how))


@contextmanager
def _stage(
    session: Session, folder: Path, name: str, **facts: Any
) -> Iterator[tuple[Run, Progress | None]]:
    """Yield the run with the stage's temporary folder, and a progress callback."""
    from prism_sim.run_folder import Run

    with stage_files(folder, name) as aside:
        began = time.perf_counter()
        with session.stage(name, _LINE_EVERY_S) as progress:
            yield Run(aside), progress
        if name == "simulate" or "manifest.json" in own_products(folder):
            _record(Run(aside), name, time.perf_counter() - began, facts)


def _record(run: Run, stage: str, seconds: float, facts: dict[str, Any]) -> None:
    """Write the time and memory of ``stage`` to the manifest."""
    manifest = run.read_json(run.manifest) | facts
    later = [*PRODUCTS][[*PRODUCTS].index(stage) :]
    timings = manifest.get("timings_s", {})
    kept = {name: took for name, took in timings.items() if name not in later}
    manifest["timings_s"] = {**kept, stage: round(seconds, 3)}
    manifest["peak_memory_bytes"] = max(manifest.get("peak_memory_bytes", 0), _peak_memory_bytes())
    run.write_json(run.manifest, manifest)


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
