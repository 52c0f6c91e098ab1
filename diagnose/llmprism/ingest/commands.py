"""``llmprism ingest`` and ``llmprism check``: the command lines of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llmprism.ingest.ingesting import Ingested, Progress
    from llmprism.ingest.network.parts import Content
    from llmprism.ingest.notes import Notes

INGEST_HELP = """Turn telemetry of any kind into the flow table that llmprism reads.

INPUTS are files, folders or globs: pcap, pcapng, NetFlow, IPFIX, sFlow, nfcapd files, JSON lines
of goflow2 and Akvorado, nfdump CSV, Zeek conn.log, any CSV or Parquet. Files may be compressed.

Writes FOLDER/flows.parquet, FOLDER/topology.json (what is known of the network), and what was
set aside and why in FOLDER/ingest.json.
"""

CHECK_HELP = """Say on one page what flow records allow, and which setting would allow more.

FLOWS is a flow table, as `llmprism ingest` writes it. Without --topology, what the records show
of the network is taken.
"""

ingest_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


check_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@check_app.command(help=CHECK_HELP)
def check_command(
    flows: Annotated[
        Path, typer.Argument(metavar="FLOWS", help="Flow records, Parquet.", show_default=False)
    ],
    topology: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The physical network, JSON.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Say what flow records allow."""
    with _user_errors(debug):
        from llmprism.ingest.check import as_dict, check

        with reporting(quiet) as progress:
            found, lines, diagnosis = check(flows, topology, progress)
    if as_json:
        typer.echo(json.dumps(as_dict(found, lines), indent=1, allow_nan=False))
        return
    typer.echo(f"{found.records:,} records")
    for line in lines:
        typer.echo(f"{line.answer:>7}  {line.stage}: {line.figures}")
        if line.mend:
            typer.echo(f"         to get it: {line.mend}")
    for line_of_verdict in diagnosis.verdict.lines() if diagnosis else []:
        typer.echo(line_of_verdict)


@ingest_app.command(help=INGEST_HELP)
def ingest_command(
    inputs: Annotated[
        list[str], typer.Argument(metavar="INPUTS...", help="What to read.", show_default=False)
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where to write.")] = "ingested",
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="Format of all inputs, if not recognised."),
    ] = None,
    mapping: Annotated[
        str,
        typer.Option("--map", metavar="OURS=THEIRS,...", help="Columns of a CSV or Parquet."),
    ] = "",
    time_unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="Of numeric times: s, ms, us or ns.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Leave out records before it.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Leave out records from it on.")
    ] = None,
    idle_gap: Annotated[
        str, typer.Option(metavar="TIME", help="Silence that ends a record of packets.")
    ] = "5ms",
    active_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="Longest record of packets.")
    ] = "60s",
    sampling: Annotated[
        int, typer.Option(metavar="N", min=1, help="One packet in N was captured.")
    ] = 1,
    points: Annotated[
        str,
        typer.Option(metavar="THEIRS=NAME,...", help="Names of the observation points."),
    ] = "",
    topology: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The network: topology.json, a CSV of cables, ibnetdiscover, LLDP (JSON), Slurm's "
            "topology.conf or containerlab; a folder, or several times, for several files.",
        ),
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Addresses of servers, NICs (SERVER-NIC) and switches, as in /etc/hosts.",
        ),
    ] = None,
    observation_point: Annotated[
        str | None,
        typer.Option(metavar="SIDE", help="ingress (source's leaf) or egress, if known."),
    ] = None,
    clock_tolerance: Annotated[
        str, typer.Option(metavar="TIME", help="How far apart the points' clocks may be.")
    ] = "2.5ms",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Turn telemetry into a flow table."""
    with _user_errors(debug):
        from llmprism.ingest.ingesting import ingest
        from llmprism.ingest.network.hosts import read_hosts
        from llmprism.ingest.notes import Notes
        from llmprism.ingest.options import Options, parse_duration, parse_pairs, parse_time
        from llmprism.ingest.sources import find

        _check_choice("--time-unit", time_unit, ("s", "ms", "us", "ns"))
        _check_choice("--observation-point", observation_point, ("ingress", "egress"))
        folder, notes = Path(out), Notes()
        names = read_hosts(hosts) if hosts else {}
        network = _described(topology or [], names, notes)  # before the work
        options = Options(
            mapping=parse_pairs(mapping, "--map"),
            time_unit=time_unit,
            idle_gap_ns=parse_duration(idle_gap, "--idle-gap"),
            active_timeout_ns=parse_duration(active_timeout, "--active-timeout"),
            sampling=sampling,
            points={**_switches(network, names), **parse_pairs(points, "--points")},
            homes=_homes(network),
            tolerance_ns=parse_duration(clock_tolerance, "--clock-tolerance"),
            from_ns=parse_time(since, "--from") if since else None,
            to_ns=parse_time(until, "--to") if until else None,
        )
        metadata = {"observation_point": observation_point} if observation_point else {}
        sources = find(inputs)
        with reporting(quiet) as progress:
            target = folder / "flows.parquet"
            done = ingest(sources, target, options, file_format, metadata, progress, notes)
        _write_topology(done, network, folder)
        _write_notes(done, folder)
        _print_ingested(done, folder, as_json, quiet)


def _described(topology: list[Path], hosts: Mapping[str, str], notes: Notes) -> Content | None:
    """Return the network as its descriptions have it; None if there are none."""
    from llmprism.ingest.network import read_network

    if hosts and not topology:
        raise typer.BadParameter("it names parts of --topology", param_hint="--hosts")
    return read_network(topology, hosts, notes) if topology else None


def _switches(network: Content | None, hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the switch of each address: exporters are known by their addresses."""
    names = {one["name"] for one in network["switches"]} if network else set()
    return {address: name for name, address in hosts.items() if name in names}


def _homes(network: Content | None) -> dict[str, str]:
    """Return the switch of each address of the network."""
    ends = network["endpoints"] if network else []
    return {end["address"]: end["switch"] for end in ends if end.get("switch")}


def _write_topology(done: Ingested, described: Content | None, folder: Path) -> None:
    """Write the network as described, or else what the records show of it."""
    from llmprism.ingest.network.inferred import infer
    from llmprism.io.writing import replacing

    if described:
        content = described
        _compare(done, content)
    else:
        content = infer(done.seen.pairs, done.seen.paths)
        done.notes.remark(
            "topology.json holds what flows show: each address is taken for a server; "
            "link rates are unknown"
        )
    with replacing(folder / "topology.json") as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _compare(done: Ingested, content: Content) -> None:
    """Remark on addresses and switches of flows that the description of the network lacks."""
    seen = {address for pair in done.seen.pairs for address in pair}
    unknown = sorted(seen - {end["address"] for end in content["endpoints"]})
    if unknown:
        done.notes.remark(
            f"{len(unknown):,} of {len(seen):,} addresses of flows are not in the description of "
            f"the network ({_first(unknown)}); their records will be set aside; "
            "--hosts FILE names addresses"
        )
    hops = {hop for path, _, _ in done.seen.paths for hop in path.split("|")} - {"?"}
    strange = sorted(hops - {one["name"] for one in content["switches"]})
    if strange:
        done.notes.remark(
            f"{len(strange):,} of {len(hops):,} observation points are no switches of the network "
            f"({_first(strange)}); --points THEIRS=SWITCH,... or --hosts names them"
        )


def _first(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _write_notes(done: Ingested, folder: Path) -> None:
    from llmprism.io.writing import replacing

    with replacing(folder / "ingest.json") as partial:
        partial.write_text(json.dumps(done.notes.as_dict(), indent=1) + "\n", encoding="utf-8")


def _print_ingested(done: Ingested, folder: Path, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(done.notes.as_dict(), indent=1))
    else:
        written = f"{done.notes.records:,} flow records written to {folder / 'flows.parquet'}"
        typer.echo(written)
    if not quiet:
        for line in done.notes.lines():
            typer.echo(line, err=True)


def _check_choice(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        listed = ", ".join(known)
        raise typer.BadParameter(f"there is no {value!r}; known: {listed}", param_hint=option)


@contextmanager
def _user_errors(debug: bool) -> Iterator[None]:
    """Print what the user can mend in a line each, and exit 1."""
    from llmprism.errors import UserError

    try:
        yield
    except UserError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def reporting(quiet: bool) -> Iterator[Progress]:
    """Yield where to report progress: a bar on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(fraction: float, doing: str) -> None:
            bar.update(task, completed=fraction, description=doing)

        yield report
