"""``llmprism ingest``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from llmprism.ingest import arguments
from llmprism.options import HELP
from prism_common.command import Command, Quiet, new_app, user_errors
from prism_common.escapes import printable
from prism_common.progress import reporting

if TYPE_CHECKING:
    from llmprism.ingest.ingesting import Ingested
    from llmprism.io.notes import Notes
    from llmprism.network.parts import Content

_NOTES = "ingest.json"
_WRITTEN = ("flows.parquet", "topology.json", _NOTES)


ingest_app = new_app()


@ingest_app.command(help=HELP["ingest"], cls=Command)
def ingest_command(
    inputs: arguments.Inputs,
    out: arguments.Out = "ingested",
    file_format: arguments.FileFormat = None,
    mapping: arguments.Mapping = "",
    time_unit: arguments.TimeUnit = None,
    separator: arguments.Separator = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    idle_gap: arguments.IdleGap = "5ms",
    active_timeout: arguments.ActiveTimeout = "60s",
    sampling: arguments.Sampling = 1,
    points: arguments.Points = "",
    topology: arguments.Topology = None,
    hosts: arguments.Hosts = None,
    observation_point: arguments.ObservationPoint = None,
    clock_tolerance: arguments.ClockTolerance = "2.5ms",
    as_json: arguments.Json = False,
    quiet: Quiet = False,
    debug: arguments.Debug = False,
) -> None:
    """Turn telemetry into a flow table."""
    with user_errors(debug):
        from llmprism.ingest import options as of
        from llmprism.ingest.ingesting import ingest
        from llmprism.ingest.sources import find
        from llmprism.io.notes import Notes
        from llmprism.network.hosts import read_hosts
        from prism_common.files import write_json
        from prism_common.folders import new_folder

        _check_target(out)  # before the work
        _check_choice("--observation-point", observation_point, ("ingress", "egress"))
        notes = Notes()
        names = read_hosts(hosts) if hosts else {}
        network = _described(topology or [], names, notes)  # before the work
        from_ns, to_ns = of.parse_window(since, until)
        options = of.Options(
            mapping=of.parse_pairs(mapping, "--map"),
            time_unit=time_unit,
            separator=of.parse_separator(separator) if separator else None,
            idle_gap_ns=of.parse_duration(idle_gap, "--idle-gap"),
            active_timeout_ns=of.parse_duration(active_timeout, "--active-timeout"),
            sampling=sampling,
            points={**_switches(network, names), **of.parse_pairs(points, "--points")},
            homes=_homes(network),
            tolerance_ns=of.parse_duration(clock_tolerance, "--clock-tolerance"),
            from_ns=from_ns,
            to_ns=to_ns,
        )
        metadata = {"observation_point": observation_point} if observation_point else {}
        folder, chosen = Path(out), file_format or ("csv" if separator else None)
        with new_folder(folder):
            with reporting(quiet) as progress:
                target = folder / "flows.parquet"
                done = ingest(find(inputs), target, options, chosen, metadata, progress, notes)
            write_json(folder / "topology.json", _topology(done, network))
            write_json(folder / _NOTES, done.notes.as_dict())
        _print_ingested(done, folder, as_json, quiet)
    if not done.notes.records:
        from prism_common.program import CANNOT_TELL_EXIT

        raise typer.Exit(CANNOT_TELL_EXIT)


def _described(topology: list[Path], hosts: Mapping[str, str], notes: Notes) -> Content | None:
    """Return the network as its descriptions have it; None if there are none."""
    from llmprism.network import read_network

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


def _topology(done: Ingested, described: Content | None) -> Content:
    """The network as described, or else what the records show of it."""
    from llmprism.network.content import infer

    if described:
        _compare(done, described)
        return described
    done.notes.remark(
        "topology.json holds what flows show: each address is taken for a server; "
        "link rates are unknown"
    )
    return infer(done.seen.pairs, done.seen.paths)


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


def _print_ingested(done: Ingested, folder: Path, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(done.notes.as_dict(), indent=1))
    else:
        written = f"{done.notes.records:,} flow records written to {folder / 'flows.parquet'}"
        typer.echo(printable(written))
    if not quiet:
        for line in done.notes.lines():
            typer.echo(printable(line), err=True)


def _check_target(out: str) -> None:
    """Refuse a folder in which files would be replaced that no ingest wrote."""
    from prism_common.errors import Problem, UserError
    from prism_common.folders import Names, OwnFolder

    how = "name another folder with --out"
    folder = Path(out)
    if not out or "\0" in out:
        raise UserError(Problem(f"{out!r} names no folder", "--out", how))
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(Problem("this is a file, and must be a folder", out, how))
    own = OwnFolder(folder, Names(*map(re.escape, _WRITTEN)), how)
    own.refuse_in_the_way()
    old = [*own.files()]
    if old and not _is_ingest(folder / _NOTES):
        what = "llmprism ingest did not write this file, and will not replace it"
        raise UserError(Problem(what, str(folder / name), how) for name in old)


def _is_ingest(path: Path) -> bool:
    """Whether ``path`` holds the notes of an older ingest."""
    from prism_common.files import json_object

    return {"records", "set_aside", "remarks"} <= json_object(path).keys()


def _check_choice(option: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        listed = ", ".join(known)
        raise typer.BadParameter(f"there is no {value!r}; known: {listed}", param_hint=option)
