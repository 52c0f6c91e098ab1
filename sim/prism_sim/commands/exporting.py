"""``prism-sim export``: what a run recorded, as the telemetry of an exporter."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prism_sim.commands.options import RunFolder
from prism_sim.commands.session import Session


def export(
    session: Session,
    run_folder: RunFolder,
    form: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="ipfix, netflow9, sflow, csv, inspector."),
    ] = "ipfix",
    sampling: Annotated[
        int, typer.Option(metavar="N", min=1, help="One packet in N, for sflow.")
    ] = 1000,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: flows.SUFFIX here.")
    ] = None,
) -> None:
    """Write the flow records of a run as IPFIX, NetFlow v9, sFlow or CSV, or its collectives.

    The file is what a collector gets from switches: `llmprism ingest` reads it, and so does any
    other collector. sFlow holds one packet in N, so that sizes are estimates. inspector has what
    communication libraries wrote, which `llmprism collectives` reads.
    """
    from prism_common.errors import Problem, UserError
    from prism_common.files import replacing
    from prism_sim.commands import stages
    from prism_sim.exporters import EXPORTERS
    from prism_sim.scenario.words import did_you_mean

    if form not in EXPORTERS:
        hint = did_you_mean(form, EXPORTERS)
        raise typer.BadParameter(f"there is no {form!r}; {hint}", param_hint="--format")
    exporter, made = EXPORTERS[form], stages.existing(run_folder)
    target = out or Path(f"{exporter.stem}{exporter.suffix}")
    if target.exists():
        how = "move it away, or name another file with --out"
        raise UserError(Problem("there is a file, which is not replaced", str(target), how))
    with replacing(target) as partial, partial.open("wb") as stream:
        records = exporter.write_run(made, stream, sampling)
    session.note(f"{records:,} records as {exporter.about}")
    session.facts({"export": str(target)})
