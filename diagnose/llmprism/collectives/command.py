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
from prism_common.command import Command, Quiet, Tables, new_app, option, user_errors

if TYPE_CHECKING:
    from llmprism.collectives.diagnosing import CollectiveDiagnosis

HELP = """Find jobs, layouts, steps and slow parts in what communication libraries write.

INPUTS are files or folders: lines of JSON of NCCL Inspector or RCCL Inspector (all versions, also
compressed with gzip), their Prometheus files, dumps of PyTorch's flight recorder (pickles or JSON),
or a table (CSV or Parquet) with --map.

Exit codes: 0 success; 1 the data is wrong; 2 wrong usage; 4 the records do not show steps, and the
message gives the reason.
"""

collectives_app = new_app()


@collectives_app.command(help=HELP, cls=Command)
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
        from prism_common.files import replacing

        if out is not None:
            check_target(out)  # before the work
        network = read_topology(topology) if topology else Topology((), (), ())
        network = replace(network, jobs=tuple(read_names(jobs) if jobs else ()))
        result = diagnose(read(inputs, parse_pairs(mapping, "--map")), network)
        if out is not None:
            result.diagnosis.write(out)
        if late is not None:
            with replacing(late) as partial:
                result.write_late(partial)
        summary = {**result.diagnosis.summary(), "notes": result.notes}
        text = json.dumps(summary, indent=1) if as_json else "\n".join(_lines(result))
        typer.echo(text)
        for line in () if quiet or as_json else _remarks(result):
            typer.echo(line, err=True)
    raise typer.Exit(result.diagnosis.verdict.exit_code)


def _lines(result: CollectiveDiagnosis) -> Iterator[str]:
    """Jobs with their layouts and steps, and findings."""
    from prism_common.quantities import counted, duration, percent

    diagnosis = result.diagnosis
    for row in diagnosis.layouts.to_dict("records"):
        jobs = diagnosis.jobs[diagnosis.jobs["job"] == row["job"]]
        steps = diagnosis.steps[diagnosis.steps["job"] == row["job"]]
        axes = ", ".join(
            f"{axis} {row[axis] if row[axis] > 0 else '?'}"
            for axis in ("dp", "pp", "tp", "ep", "cp")
            if row[axis] != 1
        )
        servers = jobs["server"].nunique()
        where = f" on {counted(servers, 'server')}" if servers else ""
        length = duration(row["period_ns"]) if row["period_ns"] > 0 else "unknown"
        yield (
            f"{row['job']}: {counted(len(jobs), 'process', 'processes')}{where}, {axes or 'dp 1'},"
            f" step {length} ({counted(steps['step'].nunique(), 'step')})"
        )
    for row in diagnosis.findings.to_dict("records"):
        yield (
            f"finding {row['finding']}: {row['job']}, steps {row['first_step']} to"
            f" {row['last_step']}, {row['cause'].replace('_', ' ')} at {row['culprit']}, sure:"
            f" {percent(row['confidence'], 0)}"
        )
    if diagnosis.verdict.can_tell:
        yield from diagnosis.conclusion.lines()


def _remarks(result: CollectiveDiagnosis) -> Iterator[str]:
    for reason, count in result.diagnosis.intake.set_aside.items():
        yield f"set aside {count:,}: {reason}"
    yield from result.notes
    yield from result.diagnosis.verdict.lines()
