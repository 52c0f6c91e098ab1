"""``prism-sim operate``: policies against failures, compared on the same failures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_common.quantities import counted
from prism_sim.commands.options import Processes, out_folder
from prism_sim.commands.session import WRONG, Session

if TYPE_CHECKING:
    from prism_sim.operations.study import Study


def operate(
    session: Session,
    study_name: Annotated[
        str, typer.Argument(metavar="STUDY", help="A YAML file, or a bundled study's name.")
    ],
    out: Annotated[
        Path | None, out_folder("Folder to write. Default: results/operations/STUDY.")
    ] = None,
    processes: Processes = None,
) -> None:
    """Simulate months of a job with failures under several policies.

    Every policy meets the same failures. Writes all replications (operations.parquet), means
    (operations.json), a page (operations.html) and a picture (operations.png). Finished
    replications of policies are not repeated.
    """
    from prism_sim.loading.bundled import find_operations
    from prism_sim.operations import writing
    from prism_sim.operations.reading import read_operations
    from prism_sim.studies.pool import default_processes

    study_file = find_operations(study_name)
    study = read_operations(study_file)
    folder = out or Path("results") / "operations" / study_file.stem
    with writing.own_folder(folder):
        windows = _windows(session, study, folder)
        rows = _replications(session, study, folder, processes or default_processes())
        swept = _swept(session, study, folder, processes or default_processes())
        with writing.files_of(folder) as aside:
            written = writing.write_policies(study, rows, windows, aside, swept)
        written = written.within(folder)
    lines = [f"{key}: {path}" for key, path in written.files.items()]
    text = written.shown.round(4).to_string(index=written.shown.index.name is not None)
    session.result({**written.files, **written.data}, text, *lines)


def _windows(session: Session, study: Study, folder: Path) -> list[dict[str, Any]]:
    """What a diagnoser finds in the flows of chosen moments."""
    from prism_sim.operations import opening

    moments = opening.moments_of(study)
    if not moments:
        return []
    with session.stage(counted(len(moments), "window")):
        return list(opening.open_windows(study, moments, folder / "windows"))


def _replications(
    session: Session, study: Study, folder: Path, processes: int
) -> list[dict[str, Any]]:
    """All replications of a study of policies; ends the command if some fail."""
    from prism_sim.operations import running

    number = len(running.policies_of(study)) * study.seeds
    with session.stage(f"{'at most ' * bool(study.enough)}{counted(number, 'replication')}"):
        done = running.run(study, folder / "points", processes)
    failed = [
        f"{task.policy.name}, seed {task.seed}: {one.error}" for task, one in done if one.error
    ]
    session.complain(failed)
    if failed:
        raise SystemExit(WRONG)
    return [outcome.result for _, outcome in done if outcome.result]


def _swept(session: Session, study: Study, folder: Path, processes: int) -> list[dict[str, Any]]:
    """All replications of a study's sweep; ends the command if some fail."""
    from prism_sim.operations import running

    if study.sweep is None:
        return []
    with session.stage(counted(len(study.sweep.points), "point")):
        rows = list(running.run_sweep(study, folder / "points", processes))
    failed = [
        f"{row['policy']}, seed {row['seed']}: {row['error']}" for row in rows if row["error"]
    ]
    session.complain(failed)
    if failed:
        raise SystemExit(WRONG)
    return rows
