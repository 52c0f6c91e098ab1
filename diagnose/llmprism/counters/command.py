"""``llmprism counters``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from llmprism.ingest import arguments
from llmprism.options import HELP
from prism_common.command import Command, Quiet, Tables, new_app, user_errors

if TYPE_CHECKING:
    from llmprism.counters.diagnosing import CounterDiagnosis
    from llmprism.counters.readers.options import Options


counters_app = new_app()


@counters_app.command(help=HELP["counters"], cls=Command)
def counters_command(
    inputs: arguments.Inputs,
    topology: arguments.PhysicalNetwork = None,
    ports: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Address of each port: CSV of switch, port, address."),
    ] = None,
    mapping: Annotated[
        str,
        typer.Option("--map", metavar="OURS=THEIRS,...", help="Columns of a table, if not "
                     "recognised. OURS: time, port, switch, in_bytes, out_bytes, ..."),
    ] = "",
    form: Annotated[
        Literal["cumulative", "differences"] | None,
        typer.Option(help="Whether counters are cumulative, if the values do not show it."),
    ] = None,
    side: Annotated[
        Literal["switch", "nic"] | None,
        typer.Option(help="Who names the directions in and out, if names do not show it."),
    ] = None,
    time_unit: arguments.TimeUnit = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    query: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="Of a URL, twice: counters in and out. Default: "
                     "ifHCInOctets and ifHCOutOctets."),
    ] = None,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="Of a URL: between readings.")
    ] = "15s",
    out: Tables = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ports by time, ordered by job, as PNG or SVG; needs "
                     "matplotlib."),
    ] = None,
    as_json: arguments.Json = False,
    quiet: Quiet = False,
    debug: arguments.Debug = False,
) -> None:  # fmt: skip
    """Diagnose counters."""
    with user_errors(debug):
        from llmprism.diagnosis import check_target
        from prism_common.files import refuse_foreign

        if out is not None:
            check_target(out)  # before the work
        refuse_foreign(picture, "llmprism", "--picture")
        options = _options(mapping, form, side, time_unit, since, until, query, interval)
        result = _diagnosed(inputs, options, topology, ports)
        if out is not None:
            result.diagnosis.write(out)
        if picture is not None:
            from llmprism.counters.picture import write_timeline

            write_timeline(result, picture)
        _print(result, as_json, quiet)
    raise typer.Exit(result.diagnosis.verdict.exit_code)


def _diagnosed(
    inputs: list[str], options: Options, topology: Path | None, ports: Path | None
) -> CounterDiagnosis:
    from llmprism.counters.diagnosing import diagnose
    from llmprism.counters.naming import read_ports
    from llmprism.counters.readers import read
    from llmprism.io.topology import read_topology
    from prism_common.errors import Problem, UserError

    if topology is None:
        how = "name it: --topology FILE (llmprism ingest writes one from a table of cables)"
        raise UserError(Problem("no topology: nobody knows which NICs share a server", "", how))
    network = read_topology(topology)
    return diagnose(read(inputs, options), network, read_ports(ports) if ports else {})


def _options(
    mapping: str, form: str | None, side: str | None, time_unit: str | None, since: str | None,
    until: str | None, query: list[str] | None, interval: str,
) -> Options:  # fmt: skip
    from llmprism.counters.readers.options import Options
    from llmprism.ingest.options import parse_duration, parse_pairs, parse_window
    from prism_common.errors import Problem, UserError

    if query is not None and len(query) < 2:
        raise UserError(Problem("one counter", "--query", "name both: --query IN --query OUT"))
    from_ns, to_ns = parse_window(since, until)
    return Options(
        mapping=_checked(parse_pairs(mapping, "--map")),
        form=cast(Any, form),
        side=cast(Any, side),
        time_unit=time_unit,
        from_ns=from_ns,
        to_ns=to_ns,
        queries=tuple(query) if query else Options().queries,
        step_ns=parse_duration(interval, "--interval"),
    )


def _checked(mapping: dict[str, str]) -> dict[str, str]:
    """The columns of ``--map``: each of ours is known, and each of theirs is named once."""
    from llmprism.counters.readings import COLUMNS

    known = ("time", "port", "switch", *COLUMNS)
    for ours, theirs in mapping.items():
        if ours not in known:
            what = f"there is no column {ours!r}; known: {', '.join(known)}"
            raise typer.BadParameter(what, param_hint="--map")
        if list(mapping.values()).count(theirs) > 1:
            what = f"column {theirs!r} is named for two of ours"
            raise typer.BadParameter(what, param_hint="--map")
    return mapping


def _print(result: CounterDiagnosis, as_json: bool, quiet: bool) -> None:
    from llmprism.counters.printing import lines_of, summary_of

    if as_json:
        typer.echo(json.dumps(summary_of(result), indent=1, allow_nan=False))
    for line in () if as_json else lines_of(result):
        typer.echo(line)
    if quiet or as_json:
        return
    diagnosis = result.diagnosis
    for remark in result.remarks:
        typer.echo(f"note: {remark}", err=True)
    for reason, count in diagnosis.intake.set_aside.items():
        typer.echo(f"set aside {count:,}: {reason}", err=True)
    for line in diagnosis.verdict.lines():
        typer.echo(line, err=True)
