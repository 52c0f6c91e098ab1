"""What ``llmprism ingest`` and ``llmprism check`` take on their command lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from llmprism.ingest.columns import OURS
from prism_common.command import option

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUTS...", help="What to read.", show_default=False)
]
Out = Annotated[str, typer.Option(metavar="FOLDER", help="Where to write.")]
FileFormat = Annotated[
    str | None, option("NAME", "Format of all inputs, if not recognised.", "--format")
]
Mapping = Annotated[
    str,
    option(
        "OURS=THEIRS,...",
        f"Columns of a table, if not recognised. OURS: {', '.join(OURS)}.",
        "--map",
    ),
]
Separator = Annotated[
    str | None,
    option(
        "CHARACTER", "Between the columns of a table of text, if not recognised; also tab or space."
    ),
]
TimeUnit = Annotated[
    Literal["s", "ms", "us", "ns"] | None,
    option("UNIT", "Of numeric times: s, ms, us or ns; if a column's name does not end with it."),
]
Since = Annotated[str | None, option("TIME", "Leave out records before it.", "--from")]
Until = Annotated[str | None, option("TIME", "Leave out records from it on.", "--to")]
IdleGap = Annotated[str, option("TIME", "Silence that ends a record of packets.")]
ActiveTimeout = Annotated[str, typer.Option(metavar="TIME", help="Longest record of packets.")]
Sampling = Annotated[int, typer.Option(metavar="N", min=1, help="One packet in N was captured.")]
Points = Annotated[str, option("THEIRS=NAME,...", "Names of the observation points.")]
Topology = Annotated[
    list[Path] | None,
    option(
        "FILE",
        "The network: topology.json, a CSV of cables, ibnetdiscover, LLDP neighbours, Slurm's "
        "topology.yaml or topology.conf, containerlab; a folder, or several times, for several "
        "files.",
    ),
]
Hosts = Annotated[
    Path | None,
    option("FILE", "Addresses of servers, NICs (SERVER-NIC) and switches, as in /etc/hosts."),
]
ObservationPoint = Annotated[
    str | None, option("SIDE", "ingress (source's leaf) or egress, if known.")
]
ClockTolerance = Annotated[str, option("TIME", "How far apart the points' clocks may be.")]
Flows = Annotated[
    Path, typer.Argument(metavar="FLOWS", help="Flow records, Parquet.", show_default=False)
]
PhysicalNetwork = Annotated[Path | None, option("FILE", "The physical network, JSON.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
