"""``llmprism watch``: the command line of a monitor.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmprism.defaults import METHOD, RECORDS_AT_ONCE
from llmprism.options import AtOnce, Cluster
from prism_common.command import Command, new_app, user_errors

HELP = """Watch records as they come, and tell what is slow as soon as it is.

SOURCE is a folder in which exporters leave files of any format that `llmprism ingest` reads, - for
lines on standard input, udp://HOST:PORT for NetFlow, IPFIX and sFlow, or kafka://BROKER:PORT/TOPIC
for messages of goflow2 and Akvorado.

Each event is one line of JSON on stdout, and in FOLDER/alerts.jsonl: a finding, or a reason why
the monitor does not see, was opened, updated or resolved. The monitor runs until it is interrupted
(Ctrl-C, SIGTERM), and continues where it was if it is started again with the same FOLDER.

Exit codes: 0 success; 1 the data is wrong; 2 wrong usage; and if the monitor is blind when it
ends: 4 no diagnosis, 5 no records, 6 records refused, 7 it lags, 8 datagrams dropped.
"""

watch_app = new_app()


@watch_app.command(help=HELP, cls=Command)
def watch(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Where records come from.", show_default=False)
    ],
    topology: Annotated[
        Path, typer.Option(metavar="FILE", help="The physical network, JSON.", show_default=False)
    ],
    state: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Where the monitor keeps all.", show_default=False),
    ],
    window: Annotated[
        str, typer.Option(metavar="TIME", help="Time of records that are diagnosed together.")
    ] = "300s",
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Time of records from one window to the next.")
    ] = "2s",
    quiet_period: Annotated[
        str, typer.Option(metavar="TIME", help="A fault that returns within it is the same one.")
    ] = "60s",
    silence_bound: Annotated[
        str, typer.Option(metavar="TIME", help="Blind without any record for so long.")
    ] = "60s",
    lag_bound: Annotated[
        str, typer.Option(metavar="TIME", help="Blind if the latest record is older.")
    ] = "300s",
    retention: Annotated[
        int, typer.Option(metavar="DAYS", min=1, help="How long the history is kept.")
    ] = 90,
    alertmanager: Annotated[
        str | None, typer.Option(metavar="URL", help="Alertmanager that gets the alerts.")
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve a live page and /metrics; a port is of this machine."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Token of the page, if others may ask."),
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method of diagnosis.")] = METHOD,
    at_once: AtOnce = RECORDS_AT_ONCE,
    cluster: Cluster = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.")
    ] = False,
) -> None:
    """Watch a source."""
    with user_errors(debug):
        from llmprism import methods
        from llmprism.cluster import workers_at
        from llmprism.ingest.options import parse_duration
        from llmprism.watch.network import Network
        from llmprism.watch.running import Outputs, interrupted, run
        from llmprism.watch.settings import SECOND_NS, Settings
        from llmprism.watch.sources import open_source
        from llmprism.watch.state import StateFolder

        methods.check(method)
        settings = Settings(
            window_ns=parse_duration(window, "--window"),
            stride_ns=parse_duration(every, "--every"),
            quiet_ns=parse_duration(quiet_period, "--quiet-period"),
            silence_s=parse_duration(silence_bound, "--silence-bound") / SECOND_NS,
            lag_ns=parse_duration(lag_bound, "--lag-bound"),
            retention_days=retention,
            method=method,
            records_at_once=at_once,
            cluster=cluster,
        )
        with workers_at(cluster):
            pass  # a wrong address is an error now, and an alert later
        network = Network(topology)
        folder = StateFolder(state)
        records = open_source(source, folder.path)
        outputs = Outputs(serve, token_file, alertmanager, quiet)
        code = run(records, network, folder, settings, outputs, interrupted().is_set)
    raise typer.Exit(code)
