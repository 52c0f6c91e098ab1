"""``llmprism``: the diagnoser alone, for users with real flows.

Results go to stdout, everything else to stderr. Only the standard library and typer are
imported here, so that ``--help`` is fast; other modules are imported when they are needed.

Exit codes: 0 success; 1 the data is wrong, or a file cannot be read or written; 2 wrong usage;
4 the records do not suffice for a diagnosis.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from llmprism.defaults import MEMORY_LIMIT_GIB, METHOD, RECORDS_AT_ONCE, TIME_LIMIT_S
from llmprism.options import (
    HELP,
    AtOnce,
    Cluster,
    Collectives,
    Counters,
    Logs,
    MemoryLimit,
    TimeLimit,
)
from prism_common.command import (
    AsJson,
    Command,
    Debug,
    Group,
    Quiet,
    Tables,
    Version,
    new_app,
    user_errors,
)
from prism_common.escapes import printable
from prism_common.program import run_program

if TYPE_CHECKING:
    from llmprism.diagnosis import Diagnosis
    from llmprism.io.topology import ScheduledJob, Topology

MEMBERS_DIFFER = {
    "not_listed": "taken as members, as they exchange as much with given ones",
    "apart": "given as members, but exchange nothing with others",
    "listed_twice": "given as members of two jobs at one time, so records decide",
}
"""Messages about servers where a list of members and records differ, by the key of evidence."""


class Commands(Group):
    """The commands; those of other packages are imported when they are needed."""

    default = "diagnose"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "ingest": "llmprism.ingest.commands:ingest_app",
        "check": "llmprism.check.command:check_app",
        "counters": "llmprism.counters.command:counters_app",
        "collectives": "llmprism.collectives.command:collectives_app",
        "report": "llmprism.page.command:report_app",
        "watch": "llmprism.watch.command:watch_app",
        "history": "llmprism.watch.history.command:history_app",
    }


app = new_app(cls=Commands, help=HELP["diagnose"], no_args_is_help=True)


@app.callback()
def _options(_version: Version = False) -> None:
    """Options of the program; :class:`Commands` answers ``--version``."""


@app.command("diagnose", cls=Command)
def run(
    flows: Annotated[
        Path,
        typer.Argument(
            metavar="FLOWS",
            help="Flow records, Parquet or Arrow; - for stdin; or the folder of ingest, or a run.",
            show_default=False,
        ),
    ],
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The physical network, JSON. Default: in that folder."),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="Method of diagnosis; or any package.module:object.")
    ] = METHOD,
    out: Tables = None,
    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Names of jobs: sacct or squeue --json, or a CSV of job, servers, begin, end.",
        ),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The same as --names, as facts in place of what records show; a CSV may have the "
            "columns dp, pp, tp, ep, cp as well.",
        ),
    ] = None,
    counters: Counters = None,
    collectives: Collectives = None,
    logs: Logs = None,
    at_once: AtOnce = RECORDS_AT_ONCE,
    cluster: Cluster = None,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
    _version: Version = False,
) -> None:
    """Find jobs, their parallelism, steps and slow parts in flow records."""
    from llmprism.beside import Beside
    from llmprism.isolation.runner import Limits
    from llmprism.pipeline import diagnose

    _check_method(method)
    beside = Beside(counters or (), collectives or (), logs or ())
    if flows.is_dir():
        beside = beside.or_in(flows)
        flows, topology = flows / "flows.parquet", topology or flows / "topology.json"
    if topology is None:
        raise typer.BadParameter("name the network of these flows", param_hint="--topology")
    if names and jobs:
        raise typer.BadParameter("--jobs has the names too: give one of both", param_hint="--names")
    if not quiet:
        _report_files(method)
    limits = Limits.of(time_limit, memory_limit)
    with user_errors(debug):
        network, known = _known(topology, jobs or names, beside.logs, are_facts=jobs is not None)
        of_flows = partial(
            diagnose, flows, network, method,
            records_at_once=at_once, limits=limits, cluster=cluster,
        )  # fmt: skip
        of_all = beside.around(of_flows, network, partial(typer.echo, err=True))
        diagnosis = _diagnosed(of_all, out, known, jobs or names, quiet)
    if not quiet:
        _report_intake(diagnosis, out)
        _report_given(diagnosis, network)
    _print_result(diagnosis, topology, as_json)
    lines = diagnosis.verdict.lines()
    if lines and not (quiet and diagnosis.verdict.can_tell):
        typer.echo("\n".join(map(printable, lines)), err=True)
    raise typer.Exit(diagnosis.verdict.exit_code)


def _check_method(method: str) -> None:
    """Refuse a name of no method as wrong usage."""
    from llmprism import methods
    from prism_common.errors import UserError

    try:
        methods.check(method)
    except UserError as error:
        what, how = error.problems[0].what, error.problems[0].how
        raise typer.BadParameter(f"{what}; {how}", param_hint="--method") from None


def _report_files(method: str) -> None:
    """Name the files of a method of another package, which run as the user."""
    from llmprism import methods

    for path in methods.files_of(method):
        typer.echo(printable(f"method {method}: {path}"), err=True)


def _known(
    topology: Path, names: Path | None, logs: Sequence[Path], *, are_facts: bool
) -> tuple[Topology | Path, list[ScheduledJob]]:
    """The network with the jobs of a scheduler, or else of logs, as facts; jobs that have names."""
    from llmprism.ingest.scheduler_jobs import read_names
    from llmprism.io.topology import read_topology

    known = read_names(names) if names else []
    if not (are_facts or logs):
        return topology, known
    from llmprism.logged import jobs_of

    facts = known if are_facts else jobs_of(logs)
    return replace(read_topology(topology), jobs=tuple(facts)), known


def _diagnosed(
    diagnose: Callable[..., Diagnosis], out: str | None, known: list[ScheduledJob],
    names: Path | None, quiet: bool,
) -> Diagnosis:  # fmt: skip
    """Diagnose, and write the tables if a folder was given."""
    from llmprism.diagnosis import check_target
    from prism_common.progress import reporting

    if out is not None:
        check_target(out)  # before the work
    with reporting(quiet) as progress:
        diagnosis = diagnose(progress=progress)
    if names:
        diagnosis = diagnosis.with_names(known)
        if not diagnosis.jobs["name"].notna().any():
            what = f"no job has a name from {names}: it has {len(known)} jobs that run somewhere"
            typer.echo(f"{what} (pods need the label of a job)", err=True)
    if out is not None:
        diagnosis.write(out)
    return diagnosis


def _report_intake(diagnosis: Diagnosis, out: str | None) -> None:
    intake = diagnosis.intake
    for reason, count in intake.set_aside.items():
        typer.echo(f"set aside {count} of {intake.rows} records: {printable(reason)}", err=True)
    if intake.unknown_addresses:
        named = ", ".join(f"{name} ({count})" for name, count in intake.unknown_addresses.items())
        more = intake.unknown_address_count - len(intake.unknown_addresses)
        others = f", and {more} more" if more > 0 else ""
        typer.echo(f"addresses unknown to the topology: {printable(named)}{others}", err=True)
        typer.echo(
            "    add those of GPU servers to the topology; without them, "
            "one job may look like several",
            err=True,
        )
    if intake.repeated:
        typer.echo(f"{intake.repeated} records repeat another in every column", err=True)
    if out is not None:
        typer.echo(f"tables written to {printable(out)}", err=True)


def _report_given(diagnosis: Diagnosis, network: Topology | Path) -> None:
    """Say where given jobs and records differ; a file of the network gives none."""
    from llmprism.job_names import strangers

    if isinstance(network, Path):
        return

    if unknown := ", ".join(strangers(network)):
        typer.echo(f"given as members, and not in the topology: {printable(unknown)}", err=True)
    for row in diagnosis.layouts.to_dict("records"):
        evidence = json.loads(row["evidence"] or "{}")
        for axis, size in evidence.get("records_show", {}).items():
            line = f"{row['job']}: {axis} is given as {row[axis]}, and records show {size}"
            typer.echo(line, err=True)
        if kinds := ", ".join(evidence.get("kinds_excluded", [])):
            typer.echo(f"{row['job']}: records look like {kinds}, which is given as 1", err=True)
        for name, what in MEMBERS_DIFFER.items():
            if servers := ", ".join(evidence.get(name, [])):
                typer.echo(printable(f"{row['job']}: {what}: {servers}"), err=True)


def _print_result(diagnosis: Diagnosis, topology: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(diagnosis.summary(), indent=1, allow_nan=False))
        return
    from llmprism.terminal import print_diagnosis

    print_diagnosis(diagnosis, topology)


def main() -> None:
    """Run the command line; what the terminal cannot show is printed as an escape."""
    run_program(app)


if __name__ == "__main__":
    main()
