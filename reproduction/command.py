"""The command line: ``python -m reproduction``, which is ``make paper``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_sim.toolkit import WRONG, Command, Session, counted, in_session, options

if TYPE_CHECKING:
    from reproduction.base import Trial
    from reproduction.running import Results


FOLDER = Path("results/paper")
REFERENCE = Path("results/reference")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@in_session
def paper(
    session: Session,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write.")] = FOLDER,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            metavar="N",
            min=1,
            help="Seeds of every case: 1 to N. Default: 5, or 1 with --reduced.",
        ),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Experiments, as e1,e3. Default: all.")
    ] = "",
    reduced: Annotated[
        bool, typer.Option("--reduced", help="Small clusters, one seed; e1,e3 take a minute.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Repeat cases that failed before.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help=f"Rewrite {REFERENCE}/paper.md."),
    ] = False,
    processes: options.Processes = None,
) -> None:
    """LLMPrism (arXiv 2505.00342); resumes where it stopped.

    Writes paper.md. Exits 1 if a case failed; the page then says which.
    """
    if update and (reduced or only):
        raise typer.BadParameter("the reference is made from all, not from --only or --reduced")
    from prism_sim.toolkit import default_processes
    from reproduction import running, writing

    numbers = range(1, (seeds or (1 if reduced else writing.SEEDS)) + 1)
    names = [name.strip() for name in only.split(",") if name.strip()]
    trials = running.trials_of(running.chosen(names), numbers, reduced)
    ran, there = _run(session, trials, out, processes or default_processes(), retry)
    results = running.results_of(trials, out)
    places = [out, REFERENCE] if update and not any(one.failed for one in results) else [out]
    page = _write(session, results, numbers, reduced, places)
    count = sum(map(len, trials.values()))
    facts = {"page": str(page), "cases": count, "made": ran, "from_before": there}
    facts["cpu_minutes"] = round(sum(one.cpu_seconds for one in results) / 60, 1)
    lines = [f"{key}: {value}" for key, value in facts.items()]
    session.result({**facts, "experiments": [_summary(one) for one in results]}, *lines)
    _complain_of_failures(session, results, update)


def _run(
    session: Session, trials: dict[str, list[Trial]], out: Path, processes: int, retry: bool
) -> tuple[int, int]:
    """Compute the cases that ``out`` lacks; return how many were computed, and how many reused."""
    from reproduction.running import run_trials

    with session.stage(counted(sum(map(len, trials.values())), "case")) as progress:
        report = progress or (lambda _, doing: session.note(doing))
        ran, there = run_trials(trials, out, processes, report, retry)
    session.note(f"{ran} computed, {there} reused")
    return ran, there


def _write(
    session: Session, results: list[Results], seeds: range, reduced: bool, places: list[Path]
) -> Path:
    """Write the page to all places; return the last."""
    from reproduction.writing import PAGE, write_page

    with session.stage("page"):
        for folder in places:
            write_page(results, seeds, reduced, folder / PAGE)
    return places[-1] / PAGE


def _complain_of_failures(session: Session, results: list[Results], update: bool) -> None:
    """Name the cases that failed and what can be done, and exit 1; nothing if none failed."""
    failed = [f"{one.experiment.name} {name}: {e}" for one in results for name, e in one.failed]
    if failed:
        session.complain([*failed, "--retry repeats only the cases that failed"])
        if update:
            session.complain([f"{REFERENCE}/paper.md was not changed"])
        raise SystemExit(WRONG)


def _summary(results: Results) -> dict[str, Any]:
    return {
        "name": results.experiment.name,
        "title": results.experiment.title,
        "done": len(results.done),
        "failed": [{"case": name, "error": error} for name, error in results.failed],
        "cpu_s": round(results.cpu_seconds, 1),
    }
