"""``llmprism collectives``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llmprism.ingest import arguments
from llmprism.options import HELP
from prism_common.command import Command, Quiet, Tables, new_app, option, user_errors

if TYPE_CHECKING:
    from llmprism.collectives.diagnosing import CollectiveDiagnosis


collectives_app = new_app()


@collectives_app.command(help=HELP["collectives"], cls=Command)
def collectives_command(
    inputs: arguments.Inputs,
    topology: Annotated[Path | None, option(
        "FILE", "The physical network, JSON: gives processes the addresses of their NICs.",
    )] = None,
    jobs: Annotated[Path | None, option(
        "FILE", "Members of jobs that are given: see llmprism diagnose.",
    )] = None,
    mapping: Annotated[str, option("OURS=THEIRS,...", "Columns of a table. OURS: "
                     "communicator, rank, ranks, nodes, host, process, operation, number, peer, "
                     "bytes, exec_us, end_us.", "--map")] = "",
    out: Tables = None,
    late: Annotated[Path | None, option(
        "FILE", "How late each rank joined each collective, as Parquet.",
    )] = None,
    as_json: arguments.Json = False,
    quiet: Quiet = False,
    debug: arguments.Debug = False,
) -> None:  # fmt: skip
    """Diagnose collectives."""
    with user_errors(debug):
        from llmprism.collectives.diagnosing import diagnose
        from llmprism.collectives.reading import read
        from llmprism.diagnosis import check_target
        from llmprism.ingest.options import parse_pairs
        from llmprism.ingest.scheduler_jobs import read_names
        from llmprism.io.topology import Topology, read_topology
        from llmprism.terminal import print_diagnosis
        from prism_common.files import refuse_foreign, replacing_marked

        if out is not None:
            check_target(out)  # before the work
        refuse_foreign(late, "llmprism", "--late")
        network = read_topology(topology) if topology else Topology((), (), ())
        network = replace(network, jobs=tuple(read_names(jobs) if jobs else ()))
        result = diagnose(read(inputs, parse_pairs(mapping, "--map")), network)
        if out is not None:
            result.diagnosis.write(out)
        if late is not None:
            with replacing_marked(late, "llmprism", "--late") as partial:
                result.write_late(partial)
        if as_json:
            typer.echo(json.dumps(result.diagnosis.summary() | {"notes": result.notes}, indent=1))
        else:
            print_diagnosis(result.diagnosis, topology or Path())
        for line in () if quiet or as_json else _remarks(result):
            typer.echo(line, err=True)
    raise typer.Exit(result.diagnosis.verdict.exit_code)


def _remarks(result: CollectiveDiagnosis) -> Iterator[str]:
    for reason, count in result.diagnosis.intake.set_aside.items():
        yield f"set aside {count:,}: {reason}"
    yield from result.notes
    yield from result.diagnosis.verdict.lines()
