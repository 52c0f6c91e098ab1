"""``prism-sim sweep``: a study as a table and a figure; resumes where it stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prism_common.errors import Problem, UserError
from prism_common.quantities import counted
from prism_sim.commands.options import Processes, out_folder
from prism_sim.commands.session import WRONG, Session

if TYPE_CHECKING:
    import pandas as pd

    from prism_sim.scenario.source import Source
    from prism_sim.studies.pool import Workers
    from prism_sim.studies.study import Study
    from prism_sim.studies.sweep import Swept

_LINE_EVERY_S = 30.0  # of progress, if stderr is not a terminal
_SHOWN = 40  # places in the printed table of means; the Parquet table has all runs


def sweep(
    session: Session,
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
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Run on the workers of a Dask cluster, such as tcp://10.0.0.1:8786, instead of "
            "processes of this machine. Needs: pip install 'prism-sim[dask]'.",
        ),
    ] = None,
) -> None:
    """Run a scenario at many places, and compare figures; resumes where it stopped.

    A study is a YAML file: a scenario, the places to run, seeds, methods, and the figures to
    keep. The places come from a grid, a list, variants with names, random draws, or a Latin
    hypercube, over any paths of the scenario. Without places, methods are compared.

    Writes one table (sweep.parquet, a row for each run) and one picture (sweep.png). Finished runs
    are saved at once and not repeated: after an interruption, repeat the command. The result does
    not depend on the number of processes, or on the cluster.

    Exits 1 if a run failed; the table then has its error, and all the others.
    """
    from prism_sim.loading.bundled import find_study
    from prism_sim.studies.pool import default_processes
    from prism_sim.studies.study import MANY, read_study, runs_of

    path = find_study(study_name)
    study, source = read_study(path)
    if runs_of(study) > MANY and not yes:
        _confirm(session, runs_of(study), path)
    folder = out or Path("results") / "sweeps" / path.stem
    at_once = processes or study.processes or default_processes()
    with _workers(cluster, at_once) as workers:
        swept, table = _swept(session, (study, source), folder, workers, retry)
    _show(session, study, folder, swept, table)


@contextmanager
def _workers(cluster: str | None, processes: int) -> Iterator[Workers]:
    """The workers of a Dask cluster, or else processes of this machine."""
    from prism_sim.studies.cluster import dask_workers
    from prism_sim.studies.pool import Processes as OfThisMachine

    if cluster is None:
        yield OfThisMachine(processes)
    else:
        with dask_workers(cluster) as workers:
            yield workers


def _swept(
    session: Session, read: tuple[Study, Source], folder: Path, workers: Workers, retry: bool
) -> tuple[Swept, pd.DataFrame]:
    """Run the missing points, and write the table and the picture."""
    from prism_sim.products import stage_files
    from prism_sim.render.paint import write_png
    from prism_sim.run_folder import Run
    from prism_sim.studies import sweep, sweep_figure
    from prism_sim.studies.study import points_of, runs_of

    study, source = read
    total, points = runs_of(study), points_of(study, source)
    with sweep.own_folder(folder):
        with session.stage(counted(total, "run"), _LINE_EVERY_S) as progress:
            swept = sweep.run_points(
                points, folder, 1, progress, retry, total=total, workers=workers
            )
        session.note(f"{swept.made} computed, {swept.there} reused")
        session.warn(sweep.absent_figures(study, swept.rows, folder, source))
        table = sweep.table_of(study, swept.rows, folder)
        with stage_files(folder, sweep.STAGE) as aside:
            sweep.write_table(study, table, aside)
            write_png(sweep_figure.draw(Run(aside)), aside / sweep.PICTURE)
    return swept, table


def _show(session: Session, study: Study, folder: Path, swept: Swept, table: pd.DataFrame) -> None:
    """Print the means over the seeds, the files, and the errors; exit 1 if there are any."""
    from prism_sim.studies import sweep
    from prism_sim.studies.study import METHOD
    from prism_sim.studies.sweep_values import distinct, is_number, names_of

    failed = table[table["error"].notna()]
    files = {"table": str(folder / sweep.TABLE), "figure": str(folder / sweep.PICTURE)}
    facts = {"runs": len(table), "failed": len(failed)}
    facts |= {"made": swept.made, "from_before": swept.there}
    shown = table.drop(columns=["key", "error"]).drop(index=failed.index)
    for column in study.columns:
        if not is_number(shown[column]):
            shown[column] = shown[column].map(names_of(distinct(shown[column])))
    means = shown.groupby([*study.columns, METHOD], sort=False).mean().drop(columns="seed")
    lines = [f"{key}: {value}" for key, value in files.items()]
    if len(means) > _SHOWN:
        lines.insert(0, f"the first {_SHOWN} of {len(means)} places; the table has all")
    text = [means.head(_SHOWN).to_string()] if len(means) else []
    session.result({**files, **facts}, *text, *lines)
    for row in failed.to_dict("records"):
        place = "".join(f"{column}={row[column]}, " for column in study.columns)
        session.complain([f"{place}seed {row['seed']}, {row['method']}: {row['error']}"])
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
