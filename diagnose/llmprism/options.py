"""Options of all commands that diagnose flow records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", metavar="S", min=0.1, help="Time of another package's method [s]."
    ),
]
MemoryLimit = Annotated[
    float,
    typer.Option(
        "--memory-limit", metavar="GIB", min=0.1, help="Memory of another package's method [GiB]."
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--at-once",
        metavar="N",
        min=1,
        help="Records in memory at once; a larger Parquet file is diagnosed in parts.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Dask scheduler, such as tcp://10.0.0.1:8786, whose workers diagnose the parts.",
    ),
]
Counters = Annotated[
    list[Path] | None,
    typer.Option(
        "--counters",
        metavar="FILE",
        exists=True,
        help="Counters of ports beside the flows; may be repeated.",
    ),
]
Collectives = Annotated[
    list[Path] | None,
    typer.Option(
        "--collectives",
        metavar="PATH",
        exists=True,
        help="What communication libraries write; may be repeated.",
    ),
]
Logs = Annotated[
    list[Path] | None,
    typer.Option("--logs", metavar="FOLDER", help="Tables of llmlog --out; may be repeated."),
]
