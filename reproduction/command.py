"""The command line: ``prism-sim reproduce paper``, or ``python -m reproduction``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_sim.toolkit import WRONG, counted, open_session, options

if TYPE_CHECKING:
    from reproduction.running import Results


FOLDER = Path("results/paper")
REFERENCE, IMAGES = Path("results/reference"), Path("docs/images")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def paper(
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = FOLDER,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Seeds of every case: 1 to N. Default: 5.")
    ] = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Experiments, as e1,e3. Default: all.")
    ] = "",
    reduced: Annotated[
        bool, typer.Option("--reduced", help="Small clusters, in about a minute.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Repeat cases that failed before.")
    ] = False,
    update: Annotated[
        bool,
        typer.Option("--update", help=f"Rewrite {REFERENCE}/paper.md and {IMAGES}/paper-*.png."),
    ] = False,
    processes: options.Processes = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """LLMPrism (arXiv 2505.00342); resumes where it stopped.

    Writes paper.md and its pictures. Exits 1 if a case failed; the page then says which.
    """
    if update and (reduced or only):
        raise typer.BadParameter("the reference is made from all, not from --only or --reduced")
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.toolkit import default_processes
        from reproduction import running, writing

        numbers = range(1, (seeds or writing.SEEDS) + 1)
        names = [name.strip() for name in only.split(",") if name.strip()]
        trials = running.trials_of(running.chosen(names), numbers, reduced)
        count = sum(map(len, trials.values()))
        with session.stage(counted(count, "case")) as progress:
            report = progress or (lambda _, doing: session.note(doing))
            at_once = processes or default_processes()
            ran, there = running.run_trials(trials, out, at_once, report, retry)
        session.note(f"{ran} computed, {there} reused")
        results = running.results_of(trials, out)
        places = [(out / writing.PAGE, out)]
        if update and not any(one.failed for one in results):
            places.append((REFERENCE / writing.PAGE, IMAGES))
        with session.stage("page"):
            written = [writing.write_page(results, numbers, reduced, *at) for at in places]
        facts = {"page": str(written[-1][0]), "cases": count, "made": ran, "from_before": there}
        facts["cpu_minutes"] = round(sum(one.cpu_seconds for one in results) / 60, 1)
        experiments = [_summary(one) for one in results]
        lines = [f"{key}: {value}" for key, value in facts.items()]
        session.result({**facts, "experiments": experiments}, *lines)
        failed = [f"{one.experiment.name} {name}: {e}" for one in results for name, e in one.failed]
        session.complain(failed)
        if failed:
            session.complain(["--retry repeats only the cases that failed"])
        if failed and update:
            session.complain([f"{REFERENCE}/{writing.PAGE} was not changed"])
        if failed:
            raise SystemExit(WRONG)


def _summary(results: Results) -> dict[str, Any]:
    return {
        "name": results.experiment.name,
        "title": results.experiment.title,
        "done": len(results.done),
        "failed": [{"case": name, "error": error} for name, error in results.failed],
        "cpu_s": round(results.cpu_seconds, 1),
    }
