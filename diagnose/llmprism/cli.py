"""``llmprism FLOWS --topology TOPO``: the diagnoser alone, for users with real flows.

Results go to stdout, everything else to stderr. Only the standard library and typer are
imported here, so that ``--help`` is fast; other modules are imported when they are needed.

Exit codes: 0 success; 1 the data is wrong, or a file cannot be read or written; 2 wrong usage;
4 the records do not suffice for a diagnosis.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmprism.command import PLAIN_WIDTH, SETTINGS, Command, MemoryLimit, TimeLimit
from llmprism.defaults import MEMORY_LIMIT_GIB, METHOD, RECORDS_AT_ONCE, TIME_LIMIT_S
from llmprism.kinds import OTHER, UNKNOWN

if TYPE_CHECKING:
    from rich.table import Table

    from llmprism.diagnosis import Diagnosis
    from llmprism.isolation.runner import Limits

HELP = """Find jobs, parallelism, steps and slow parts from flow records and the topology.

Three more commands: `llmprism ingest INPUTS...` turns telemetry of any kind into flow records,
`llmprism check FLOWS` says what they allow, and `llmprism report FOLDER` makes a page of the
diagnosis. Each has its own --help.

Results go to stdout, messages to stderr. Exit codes: 0 success; 1 the data is wrong; 2 wrong
usage; 4 the records do not suffice for a diagnosis, and the message gives the reason.
"""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)
_COMMANDS = {  # everything else diagnoses
    "ingest": "llmprism.ingest.commands:ingest_app",
    "check": "llmprism.ingest.commands:check_app",
    "report": "llmprism.page.command:report_app",
}
_SPELLED = 5  # findings put into words below the table
_AXES = ("dp", "pp", "tp", "ep", "cp")
_LAYOUT = " ".join(_AXES)  # the head of a column of their sizes
_SHOWN = 20  # findings shown in the table; all are in --json and --out


@app.command(help=HELP, cls=Command)
def run(
    flows: Annotated[
        Path,
        typer.Argument(
            metavar="FLOWS", help="Flow records, Parquet or Arrow; - for stdin.", show_default=False
        ),
    ],
    topology: Annotated[
        Path, typer.Option(metavar="FILE", help="The physical network, JSON.", show_default=False)
    ],
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="Method of diagnosis; or any package.module:object."),
    ] = METHOD,
    out: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder for the tables, as Parquet."),
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Records in memory at once; a larger Parquet file is diagnosed in parts.",
        ),
    ] = RECORDS_AT_ONCE,
    time_limit: TimeLimit = TIME_LIMIT_S,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Diagnose flow records."""
    from llmprism import methods
    from llmprism.errors import UserError
    from llmprism.isolation.runner import Limits

    try:
        methods.check(method)
    except UserError as error:
        what, how = error.problems[0].what, error.problems[0].how
        raise typer.BadParameter(f"{what}; {how}", param_hint="--method") from None
    limits = Limits.of(time_limit, memory_limit)
    try:
        diagnosis = _diagnosed(flows, topology, method, at_once, limits, out, quiet)
        if not quiet:
            _report_intake(diagnosis, out)
        _print_result(diagnosis, topology, as_json)
    except UserError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    lines = diagnosis.verdict.lines()
    if lines and not (quiet and diagnosis.verdict.can_tell):
        typer.echo("\n".join(lines), err=True)
    raise typer.Exit(diagnosis.verdict.exit_code)


def _diagnosed(
    flows: Path,
    topology: Path,
    method: str,
    at_once: int,
    limits: Limits,
    out: str | None,
    quiet: bool,
) -> Diagnosis:
    """Diagnose, and write the tables if a folder was given."""
    from llmprism import pipeline
    from llmprism.diagnosis import check_target
    from llmprism.errors import Problem, UserError
    from llmprism.ingest.commands import reporting

    if out is not None:
        check_target(out)  # before the work
    try:
        with reporting(quiet) as progress:
            diagnosis = pipeline.diagnose_files(flows, topology, method, progress, at_once, limits)
        if out is not None:
            diagnosis.write(out)
    except OSError as error:
        where = str(error.filename or "")
        raise UserError(Problem(error.strerror or str(error), where)) from error
    except MemoryError as error:
        raise UserError(Problem("not enough memory", str(flows), "diagnose less time")) from error
    return diagnosis


def _report_intake(diagnosis: Diagnosis, out: str | None) -> None:
    intake = diagnosis.intake
    for reason, count in intake.set_aside.items():
        typer.echo(f"set aside {count} of {intake.rows} records: {reason}", err=True)
    if intake.unknown_addresses:
        named = ", ".join(f"{name} ({count})" for name, count in intake.unknown_addresses.items())
        more = intake.unknown_address_count - len(intake.unknown_addresses)
        others = f", and {more} more" if more > 0 else ""
        typer.echo(f"addresses unknown to the topology: {named}{others}", err=True)
        typer.echo(
            "    add those of GPU servers to the topology; without them, "
            "one job may look like several",
            err=True,
        )
    if intake.repeated:
        typer.echo(f"{intake.repeated} records repeat another in every column", err=True)
    if out is not None:
        typer.echo(f"tables written to {out}", err=True)


def _print_result(diagnosis: Diagnosis, topology: Path, as_json: bool) -> None:
    summary = diagnosis.summary()
    if as_json:
        typer.echo(json.dumps(summary, indent=1, allow_nan=False))
        return
    from rich.console import Console

    console = Console(
        width=None if sys.stdout.isatty() else PLAIN_WIDTH, markup=False, highlight=False
    )
    if summary["jobs"]:
        console.print(_jobs_table(diagnosis, summary["jobs"]))
    else:
        console.print(f"No job was found (method {diagnosis.method}).")
    found = summary["findings"]
    if found:
        console.print(_findings_table(found, diagnosis.method))
        for sentence in spelled(diagnosis, topology):
            console.print(sentence)
    elif diagnosis.verdict.can_tell:
        console.print("Nothing stands out.")


def spelled(diagnosis: Diagnosis, topology: Path) -> list[str]:
    """The first findings in words, numbered; none if the topology was read from a pipe."""
    if not topology.is_file():
        return []
    sentences = diagnosis.sentences(json.loads(topology.read_text(encoding="utf-8")))
    more = len(sentences) - _SPELLED
    rest = [f"{more} more: see --out, --json, or the page of llmprism report"] if more > 0 else []
    return [f"{number}. {one}" for number, one in enumerate(sentences[:_SPELLED], 1)] + rest


def _jobs_table(diagnosis: Diagnosis, jobs: list[dict[str, Any]]) -> Table:
    """Return one row per job; steps that the records do not support are not shown."""
    from llmprism.quantities import duration

    doubted = {job["job"]: bool(diagnosis.verdict.doubted(job["job"])) for job in jobs}

    rows = [
        [
            job["job"],
            str(job["addresses"]),
            ", ".join(f"{count} {kind}" for kind, count in _training_first(job["pairs"])),
            " ".join(f"{_known(job['layout'].get(axis)):>2}" for axis in _AXES),
            _known(job["layout"].get("micro_batches")),
            "?" if doubted[job["job"]] else str(job["steps"]),
            "?" if doubted[job["job"]] else duration(job["step_median_s"] * 1e9),
        ]
        for job in jobs
    ]
    heads = ["job", "addresses", "pairs", _LAYOUT, "micro-\nbatches", "steps", "median\nstep"]
    return _table(f"Jobs (method {diagnosis.method})", heads, rows)


def _training_first(pairs: dict[str, int]) -> list[tuple[str, int]]:
    """Numbers of pairs by kind; those that carry no training data come last."""
    return sorted(pairs.items(), key=lambda one: (one[0] in (OTHER, UNKNOWN), one[0]))


def _known(size: int | None) -> str:
    """A size of a layout; "?" if flows cannot tell, or the method has no layouts."""
    return "?" if size is None or size < 0 else str(size)


def _findings_table(found: list[dict[str, Any]], method: str) -> Table:
    """Return one row per finding. Its magnitude is what the method says it is (`Finding`)."""
    from llmprism.quantities import duration, percent

    lost = method == "prism"

    rows = [
        [
            one["symptom"] if one["cause"] == "unknown" else f"{one['symptom']}\n{one['cause']}",
            one["job"],
            _culprit(one),
            f"{one['first_step']}-{one['last_step']}",
            percent(one["magnitude"], 0) if lost else f"{one['magnitude']:.3g}x",
            duration(one["cost"]),
            f"{one['confidence']:.2f}",
        ]
        for one in found[:_SHOWN]
    ]
    size = "speed lost" if lost else "to normal"
    heads = ["symptom, cause", "job", "culprit", "steps", size, "cost", "confidence"]
    more = f", first {_SHOWN} of {len(found)}" if len(found) > _SHOWN else ""
    return _table(f"Findings{more}", heads, rows)


def _culprit(finding: dict[str, Any]) -> str:
    """Return the culprit's name, or the number of affected addresses if none is localised."""
    evidence = finding["evidence"]
    if finding["culprit_kind"] == "job" and {"affected", "of"} <= evidence.keys():
        return f"{evidence['affected']} of {evidence['of']} addresses, not localised"
    return str(finding["culprit"])


def _table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    """Return a table of plain text: brackets in a name are not markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}
    table = Table(title=Text(title), title_justify="left", **look)
    for head in heads:
        table.add_column(head, overflow="fold", no_wrap=head == _LAYOUT)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def main() -> None:
    """Run the command line; what the terminal cannot show is printed as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        _run_command()
    except OSError as error:  # such as a full disk behind stdout
        if "--debug" in sys.argv:
            raise
        typer.echo(f"error: {error.strerror or error}", err=True)
        sys.exit(1)


def _run_command() -> None:
    if sys.argv[1:2] and sys.argv[1] in _COMMANDS:
        from importlib import import_module

        module, _, name = _COMMANDS[sys.argv[1]].partition(":")
        getattr(import_module(module), name)(sys.argv[2:], prog_name=f"llmprism {sys.argv[1]}")
    app()


if __name__ == "__main__":
    main()
