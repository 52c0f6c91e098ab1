"""Options of all commands that diagnose flow records."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from prism_common.command import option

HELP: dict[str, str] = tomllib.loads((files(__package__) / "help.toml").read_text(encoding="utf-8"))
TimeLimit = Annotated[
    float, option("S", "Time of another package's method [s].", "--time-limit", min=0.1)
]
MemoryLimit = Annotated[
    float, option("GIB", "Memory of another package's method [GiB].", "--memory-limit", min=0.1)
]
AtOnce = Annotated[
    int,
    option(
        "N",
        "Records in memory at once; a larger Parquet file is diagnosed in parts.",
        "--at-once",
        min=1,
    ),
]
Cluster = Annotated[
    str | None,
    option(
        "ADDRESS",
        "Dask scheduler, such as tcp://10.0.0.1:8786, whose workers diagnose the parts.",
        "--cluster",
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
