"""Options of all commands that diagnose flow records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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


def _several(option: str, what: str, about: str, *, exists: bool = True) -> Any:
    """An option with paths of another kind of telemetry."""
    return typer.Option(option, metavar=what, exists=exists, help=f"{about}; may be repeated.")


_Paths = list[Path] | None
Counters = Annotated[_Paths, _several("--counters", "FILE", "Counters of ports beside the flows")]
Collectives = Annotated[
    _Paths, _several("--collectives", "PATH", "What communication libraries write")
]
Logs = Annotated[_Paths, _several("--logs", "FOLDER", "Tables of llmlog --out", exists=False)]
