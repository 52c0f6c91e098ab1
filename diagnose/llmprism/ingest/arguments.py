"""What ``llmprism ingest`` and ``llmprism check`` take on their command lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmprism.ingest.columns import OURS

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUTS...", help="What to read.", show_default=False)
]
Out = Annotated[str, typer.Option(metavar="FOLDER", help="Where to write.")]
FileFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of all inputs, if not recognised."),
]
Mapping = Annotated[
    str,
    typer.Option(
        "--map",
        metavar="OURS=THEIRS,...",
        help=f"Columns of a table, if not recognised. OURS: {', '.join(OURS)}.",
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="Between the columns of a table of text, if not recognised; also tab or space.",
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT",
        help="Of numeric times: s, ms, us or ns; if a column's name does not end with it.",
    ),
]
Since = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Leave out records before it.")
]
Until = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Leave out records from it on.")
]
IdleGap = Annotated[
    str, typer.Option(metavar="TIME", help="Silence that ends a record of packets.")
]
ActiveTimeout = Annotated[str, typer.Option(metavar="TIME", help="Longest record of packets.")]
Sampling = Annotated[int, typer.Option(metavar="N", min=1, help="One packet in N was captured.")]
Points = Annotated[
    str, typer.Option(metavar="THEIRS=NAME,...", help="Names of the observation points.")
]
Topology = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="The network: topology.json, a CSV of cables, ibnetdiscover, LLDP neighbours, Slurm's "
        "topology.yaml or topology.conf, containerlab; a folder, or several times, for several "
        "files.",
    ),
]
Hosts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Addresses of servers, NICs (SERVER-NIC) and switches, as in /etc/hosts.",
    ),
]
ObservationPoint = Annotated[
    str | None,
    typer.Option(metavar="SIDE", help="ingress (source's leaf) or egress, if known."),
]
ClockTolerance = Annotated[
    str, typer.Option(metavar="TIME", help="How far apart the points' clocks may be.")
]
Flows = Annotated[
    Path, typer.Argument(metavar="FLOWS", help="Flow records, Parquet.", show_default=False)
]
PhysicalNetwork = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The physical network, JSON.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
