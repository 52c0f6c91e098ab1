"""``python -m evaluation NAME`` makes one thing of the evaluation again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evaluation.exam.command import exam, measure, paired
from evaluation.gold import gold
from evaluation.switched import ablation
from prism_common.program import run_program

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command()(exam)
app.command()(measure)
app.command()(paired)
app.command()(gold)
app.command()(ablation)


@app.callback()
def main() -> None:
    """Make figures and pages of the evaluation again, by name."""


@app.command()
def reference(
    page: Annotated[list[str] | None, typer.Argument(help="Pages; left out: all.")] = None,
) -> None:
    """Write pages of results/reference: captures, workloads."""
    from evaluation.reference.pages import write

    write(page or [])


@app.command()
def calibrate(
    worlds: Annotated[int, typer.Option(min=1, help="Of each family for development.")] = 20,
) -> None:
    """Measure how often findings are right, by kind and confidence: llmprism/calibration.json."""
    from evaluation.exam.calibrating import calibrate as measured

    typer.echo(measured(worlds))


@app.command()
def logs(
    failures: Annotated[int, typer.Option(min=1, help="Failed jobs of each population.")] = 150,
    worlds: Annotated[int, typer.Option(min=1, help="Jobs with flows.")] = 28,
    seed: Annotated[int, typer.Option(min=0, help="Of the jobs.")] = 700,
) -> None:
    """Score the diagnosis from logs: results/reference/logs.md."""
    from evaluation.logs.page import write

    typer.echo(write(failures, worlds, seed))


@app.command()
def foreign(
    folder: Annotated[
        Path | None, typer.Argument(help="Copies of public repositories, see the page.")
    ] = None,
) -> None:
    """Judge the diagnosis of public logs: results/reference/foreign.md."""
    from evaluation.foreign.page import write, write_drawn

    typer.echo(write_drawn() if folder is None else write(folder))


@app.command()
def operations() -> None:
    """Compare studies of operations with published figures: results/reference/operations.md."""
    from evaluation.operations.page import write

    write()


@app.command()
def attacks(
    examples: Annotated[int, typer.Option(min=10, help="Of each drawn attack.")] = 40,
) -> None:
    """Repeat all attacks and count the good ones: results/reference/attacks.md."""
    from evaluation.attacks.table import write

    typer.echo(write(examples))


@app.command()
def fuzz(
    seconds: Annotated[float, typer.Option(min=1, help="How long.")] = 60.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Left out: a new one.")] = None,
) -> None:
    """Put damaged files, messages, states and foreign folders before all programs."""
    from evaluation.attacks.fuzzing import fuzz as attack

    tried = attack(seconds, seed, lambda text: typer.echo(text, err=True))
    for name, count in tried.items():
        typer.echo(f"{name}: {count}")


@app.command()
def monitor() -> None:
    """Measure how many records a second suffice: a part of results/reference/monitor.md."""
    from evaluation.monitoring.page import write

    typer.echo(write())


@app.command()
def soak(
    jobs: Annotated[int, typer.Option(min=1, help="That train.")] = 20,
    hours: Annotated[float, typer.Option(min=0.5, help="Of simulated time.")] = 6.0,
    speed: Annotated[float, typer.Option(min=1, help="Simulated seconds in one second.")] = 60.0,
) -> None:
    """Watch simulated hours in compressed time: a part of results/reference/monitor.md."""
    from evaluation.monitoring.page import write_soak

    typer.echo(write_soak(jobs, hours, speed))


@app.command()
def alerts(
    seconds: Annotated[int, typer.Option(min=300, help="Of each stream.")] = 1_200,
    share: Annotated[
        float, typer.Option(min=0, max=1, help="That is watched; 0: only judge what was.")
    ] = 1.0,
) -> None:
    """Count false alerts and delays of true ones: a part of results/reference/monitor.md."""
    from evaluation.monitoring.page import write_alerts

    typer.echo(write_alerts(seconds, share))


@app.command()
def delay(
    jobs: Annotated[list[int] | None, typer.Option(help="Of 128 GPUs; may be repeated.")] = None,
) -> None:
    """Measure how soon an alert is posted: a part of results/reference/monitor.md."""
    from evaluation.monitoring.page import write_delay

    typer.echo(write_delay(jobs or [4, 16, 78]))


@app.command()
def evidence(
    number: Annotated[int, typer.Option("--worlds", min=1, help="Of each family.")] = 15,
    processes: Annotated[int | None, typer.Option(min=1, help="Parallel processes.")] = None,
) -> None:
    """Compare kinds of telemetry on the same worlds: results/reference/evidence.md."""
    from evaluation.evidence import write

    typer.echo(write(number, processes))


@app.command()
def production(
    folder: Annotated[Path, typer.Argument(help="A copy of the traces of Zhejiang Lab.")],
) -> None:
    """Diagnose an hour of a production cluster: results/reference/production.md and pictures."""
    from evaluation.production.page import write
    from prism_common.command import user_errors

    with user_errors(debug=False):
        typer.echo(write(folder))


@app.command()
def twins() -> None:
    """Compare the twins of real captures with them: results/reference/twins.md."""
    from evaluation.twins.page import main

    main()


@app.command()
def pictures() -> None:
    """Draw the pictures of the README; needs Chromium."""
    from evaluation.pictures import main

    main()


@app.command()
def ideas() -> None:
    """Draw the pictures of docs/prism.md."""
    from evaluation.ideas.drawing import main

    main()


if __name__ == "__main__":
    run_program(lambda: app(prog_name="python -m evaluation"))
