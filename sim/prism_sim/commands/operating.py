"""``prism-sim operate``: policies against failures, compared on the same failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from prism_sim.commands.options import Debug, Json, Processes, Quiet, out_folder
from prism_sim.commands.session import WRONG, counted, open_session


def operate(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY", help="A YAML file.")],
    out: Annotated[
        Path | None, out_folder("Folder to write. Default: results/operations/STUDY.")
    ] = None,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Simulate months of a job with failures under several policies.

    Every policy meets the same failures. Writes the replications (operations.parquet), the means
    (operations.json), a page (operations.html) and a picture (operations.png). Finished
    replications are not repeated.
    """
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.operations import running
        from prism_sim.operations.reading import read_operations
        from prism_sim.operations.writing import write_all
        from prism_sim.studies.pool import default_processes

        study = read_operations(study_file)
        folder = out or Path("results") / "operations" / study_file.stem
        number = len(running.policies_of(study)) * study.seeds
        with session.stage(f"{'at most ' * bool(study.enough)}{counted(number, 'replication')}"):
            done = running.run(study, folder / "points", processes or default_processes())
        failed = [(task, outcome.error) for task, outcome in done if outcome.error]
        for task, error in failed:
            session.complain([f"{task.policy.name}, seed {task.seed}: {error}"])
        if failed:
            raise SystemExit(WRONG)
        rows: list[dict[str, Any]] = [outcome.result for _, outcome in done if outcome.result]
        means, files = write_all(study, rows, folder)
        data = json.loads(Path(files["means"]).read_text(encoding="utf-8"))
        lines = [f"{key}: {path}" for key, path in files.items()]
        shown = means[["ettr", "ettr_half", "detect_s", "recover_s", "by_hand", "false_alarms"]]
        session.result({**files, **data}, shown.round(4).to_string(), *lines)
