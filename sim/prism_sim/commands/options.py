"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO", help="A YAML file, or the name of a bundled one: tiny/quickstart."
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed to use instead of the scenario's.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Run folder to write. Default: results/SCENARIO/SEED."),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a value of the scenario, as jobs.0.dp=4; may be repeated.",
        default_factory=list,
    ),
]
FailUnder = Annotated[
    list[str],
    typer.Option(
        "--fail-under",
        metavar="FIGURE=BOUND",
        help="Exit 3 if a figure of the score is worse than this: below it, as in "
        "jobs.accuracy=1, or, for errors, biases, false alarms and delays, above it, as in "
        "timeline.step_error_mean=0.003. May be repeated.",
        default_factory=list,
    ),
]
Method = Annotated[str, typer.Option("--method", help="Method of diagnosis; see list.")]
Json = Annotated[bool, typer.Option("--json", help="Print results as one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Log messages, and tracebacks of errors.")]
Processes = Annotated[
    int | None,
    typer.Option("--processes", min=1, help="Runs at once. Default: one a processor core."),
]
