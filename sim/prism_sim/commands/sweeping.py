"""``prism-sim sweep``: a study as a table and a figure; resumes where it stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from llmprism.errors import Problem, UserError
from prism_sim.commands.options import Debug, Json, Processes, Quiet, out_folder
from prism_sim.commands.session import WRONG, Session, counted, open_session


def sweep(
    study_name: Annotated[
        str, typer.Argument(metavar="STUDY", help="A YAML file, or a bundled study's name.")
    ],
    out: Annotated[
        Path | None, out_folder("Folder to write. Default: results/sweeps/STUDY.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat runs that failed.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask, however many runs the study has.")
    ] = False,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a grid of scenarios; resumes where it stopped.

    Exits 1 if a run failed; the table then has its error, and all the others.
    """
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.loading.bundled import find_study
        from prism_sim.products import stage_files
        from prism_sim.render.paint import write_png
        from prism_sim.run_folder import Run
        from prism_sim.studies import sweep, sweep_figure
        from prism_sim.studies.pool import default_processes
        from prism_sim.studies.study import MANY, points_of, read_study, runs_of

        path = find_study(study_name)
        study, source = read_study(path)
        total = runs_of(study)
        if total > MANY and not yes:
            _confirm(session, total, path)
        folder = out or Path("results") / "sweeps" / path.stem
        at_once = processes or study.processes or default_processes()
        with sweep.own_folder(folder):
            with session.stage(counted(total, "run")) as progress:
                points = points_of(study, source)
                swept = sweep.run_points(points, folder, at_once, progress, retry, total=total)
            session.note(f"{swept.made} computed, {swept.there} reused")
            table = sweep.table_of(study, swept.rows, folder, source)
            with stage_files(folder, sweep.STAGE) as aside:
                sweep.write_table(study, table, aside)
                write_png(sweep_figure.draw(Run(aside)), aside / sweep.PICTURE)
        failed = table[table["error"].notna()]
        files = {"table": str(folder / sweep.TABLE), "figure": str(folder / sweep.PICTURE)}
        facts = {"runs": len(table), "failed": len(failed)}
        facts |= {"made": swept.made, "from_before": swept.there}
        shown = table.drop(columns=["key", "error"]).drop(index=failed.index)
        means = shown.groupby([*study.grid, "method"], sort=False).mean().drop(columns="seed")
        lines = [f"{key}: {value}" for key, value in files.items()]
        session.result({**files, **facts}, *([means.to_string()] if len(means) else []), *lines)
        for row in failed.to_dict("records"):
            place = ", ".join(f"{axis}={row[axis]}" for axis in study.grid)
            session.complain([f"{place}, seed {row['seed']}, {row['method']}: {row['error']}"])
        if len(failed):
            raise SystemExit(WRONG)


def _confirm(session: Session, runs: int, study: Path) -> None:
    """Ask before a study with very many runs; refuse it without a terminal."""
    what = f"this study has {runs:,} runs"
    if sys.stdin.isatty() and sys.stderr.isatty() and not session.as_json:
        typer.confirm(f"{what}. Run them all?", abort=True, err=True)
    else:
        how = "--yes runs them all; or give the paths of the grid fewer values"
        raise UserError(Problem(what, str(study), how))
