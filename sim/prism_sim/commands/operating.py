"""``prism-sim operate``: policies against failures, compared on the same failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

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
    (operations.json) and a picture (operations.png). Finished replications are not repeated.
    """
    with open_session(as_json, quiet, debug) as session:
        import pandas as pd

        from prism_sim.operations import figures, running
        from prism_sim.operations.reading import read_operations
        from prism_sim.studies.pool import default_processes

        study = read_operations(study_file)
        folder = out or Path("results") / "operations" / study_file.stem
        at_once = processes or default_processes()
        with session.stage(counted(len(running.tasks_of(study)), "replication")):
            done = list(running.rows_of(study, folder / "points", at_once))
        failed = [(task, outcome.error) for task, outcome in done if outcome.error]
        for task, error in failed:
            session.complain([f"{task.policy.name}, seed {task.seed}: {error}"])
        if failed:
            raise SystemExit(WRONG)
        results = {(task.policy.name, task.seed): outcome.result for task, outcome in done}
        order = [(task.policy.name, task.seed) for task in running.tasks_of(study)]
        table = pd.DataFrame([results[place] for place in order])
        means, lost = figures.means(table), figures.lost_by_cause(table)
        files = {
            name: str(folder / f"operations.{ending}")
            for name, ending in (("table", "parquet"), ("means", "json"), ("figure", "png"))
        }
        table.assign(lost_by_cause=table["lost_by_cause"].map(json.dumps)).to_parquet(
            files["table"], index=False
        )
        data = {
            "mttf_s": study.mttf_s,
            "policies": json.loads(means.to_json(orient="index")),
            "lost_gpu_hours": json.loads(lost.to_json(orient="index")),
        }
        Path(files["means"]).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        figures.draw(table, Path(files["figure"]))
        lines = [f"{key}: {path}" for key, path in files.items()]
        shown = means[["ettr", "ettr_half", "detect_s", "recover_s", "by_hand", "false_alarms"]]
        session.result({**files, **data}, shown.round(4).to_string(), *lines)
