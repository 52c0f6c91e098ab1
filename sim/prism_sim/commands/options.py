"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from prism_common.command import option

ScenarioName = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A YAML file, a bundled name such as tiny/quickstart, the folder of a run, or - for "
        "standard input.",
    ),
]
Seed = Annotated[int | None, option("N", "Seed to use instead of the scenario's.", "--seed", min=0)]


def folder_name(text: str) -> Path:
    """The folder called ``text``; an empty name, as from an unset variable, is refused."""
    if not text.strip():
        raise typer.BadParameter("the name of the folder is empty")
    return Path(text)


def out_folder(about: str) -> Any:
    """The option ``--out`` with the help text ``about``."""
    return typer.Option("--out", parser=folder_name, metavar="FOLDER", help=about)


RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", parser=folder_name, help="The folder of a run.")
]
Out = Annotated[Path | None, out_folder("Run folder to write. Default: results/SCENARIO/SEED.")]
Settings = Annotated[
    list[str],
    option(
        "PATH=VALUE",
        "Change a value of the scenario, such as jobs.0.dp=4; may be repeated.",
        "--set",
        default_factory=list,
        show_default=False,
    ),
]
FailUnder = Annotated[
    list[str],
    option(
        "FIGURE=BOUND",
        "Exit 3 if a figure of the score is worse than this. 'FIGURE>=BOUND' and "
        "'FIGURE<=BOUND' give the direction; with FIGURE=BOUND it is that of the figure, "
        "see: prism-sim list figures. May be repeated.",
        "--fail-under",
        default_factory=list,
        show_default=False,
    ),
]
Method = Annotated[
    str,
    option(
        "NAME", "Method of diagnosis; see list. Any package.module:object is one, too.", "--method"
    ),
]
NoReport = Annotated[
    bool, typer.Option("--no-report", help="Stop after the score: no figures, report or trace.")
]
Live = Annotated[
    bool,
    typer.Option("--live", help="After the simulation, show it as if it happened now, on a page."),
]
Speed = Annotated[float, option("N", "With --live: N s in one.", "--speed", min=0.001, max=1000)]
Json = Annotated[bool, typer.Option("--json", help="Print results as one JSON document.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Log messages, and tracebacks of errors.")]
Processes = Annotated[
    int | None, option("N", "Runs at once. Default: one per processor core.", "--processes", min=1)
]
