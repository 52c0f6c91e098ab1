"""``llmprism watch``: the command line of a monitor.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from llmprism.defaults import METHOD, RECORDS_AT_ONCE
from llmprism.options import HELP, AtOnce, Cluster
from prism_common.command import Command, Debug, Quiet, Version, new_app, option, user_errors

watch_app = new_app()


def _configure(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a file as the defaults of those that the command line does not have."""
    if path is not None:
        with user_errors(False):
            context.default_map = _options_in(context, path)
    return path


def _options_in(context: typer.Context, path: Path) -> dict[str, Any]:
    """The options in a file, by their names."""
    from llmprism.watch.configuring import read_config

    return read_config(path, {str(one.name) for one in context.command.params} - _NOT_IN_FILES)


_NOT_IN_FILES = {"config", "check_config", "debug", "_version", "help"}
_REQUIRED = ("source", "topology", "state")


@watch_app.command(help=HELP["watch"], cls=Command)
def watch(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="Where records come from.", show_default=False),
    ] = None,
    topology: Annotated[
        Path | None, option("FILE", "The physical network, JSON.", show_default=False)
    ] = None,
    state: Annotated[
        Path | None, option("FOLDER", "Where the monitor keeps all.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        option(
            "FILE",
            "These options as YAML; the command line comes first.",
            callback=_configure,
            is_eager=True,
        ),
    ] = None,
    check_config: Annotated[
        bool, typer.Option("--check-config", help="Check the options, and watch nothing.")
    ] = False,
    collectives: Annotated[
        Path | None, option("FOLDER", "What communication libraries write.", exists=True)
    ] = None,
    window: Annotated[str, option("TIME", "Time of records that are diagnosed together.")] = "300s",
    every: Annotated[str, option("TIME", "Time of records from one window to the next.")] = "2s",
    quiet_period: Annotated[
        str, option("TIME", "A fault that returns within it is the same one.")
    ] = "60s",
    silence_bound: Annotated[str, option("TIME", "Blind without any record for so long.")] = "60s",
    lag_bound: Annotated[str, option("TIME", "Blind if the latest record is older.")] = "300s",
    retention: Annotated[int, option("DAYS", "How long the history is kept.", min=1)] = 90,
    names: Annotated[
        str | None,
        option(
            "FILE|URL",
            "Names of jobs: sacct --json, squeue --json, a CSV, kubectl get pods -A -o json, "
            "or the address of an API of Kubernetes.",
        ),
    ] = None,
    hosts: Annotated[
        Path | None, option("FILE", "Addresses of switches, as in /etc/hosts.")
    ] = None,
    points: Annotated[str, option("THEIRS=NAME,...", "Names of the observation points.")] = "",
    alertmanager: Annotated[
        list[str] | None, option("URL", "Alertmanager that gets the alerts; may be repeated.")
    ] = None,
    external_labels: Annotated[
        str, option("NAME=VALUE,...", "Labels of all alerts, such as cluster=a.")
    ] = "",
    runbook_url: Annotated[
        str, option("URL", "What to do; the name of the alert is appended.")
    ] = "",
    serve: Annotated[
        str | None,
        option("HOST:PORT", "Serve a live page and /metrics; a bare port binds to localhost."),
    ] = None,
    page_url: Annotated[str, option("URL", "The live page as others reach it, for alerts.")] = "",
    token_file: Annotated[
        Path | None, option("FILE", "Access token; required for remote clients.")
    ] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method of diagnosis.")] = METHOD,
    at_once: AtOnce = RECORDS_AT_ONCE,
    cluster: Cluster = None,
    log_format: Annotated[str, option("FORMAT", "Of lines on stderr: text or json.")] = "text",
    quiet: Quiet = False,
    debug: Debug = False,
    _version: Version = False,
) -> None:
    """Watch a source."""
    values = {**locals()}
    del values["context"]
    required = _REQUIRED[collectives is not None :]  # which need no source of flows beside them
    lacking = [one for one in required if values[one] is None]
    if lacking:
        words = ", ".join("SOURCE" if one == "source" else f"--{one}" for one in lacking)
        raise typer.BadParameter(f"{words} must be given, here or with --config")
    if log_format not in ("text", "json"):
        raise typer.BadParameter("write text or json", param_hint="--log-format")
    with user_errors(debug):
        code = _watch(context, values)
    raise typer.Exit(code)


def _watch(context: typer.Context, values: dict[str, Any]) -> int:
    """Watch as the options say; return the exit code."""
    from llmprism import methods
    from llmprism.cluster import workers_at
    from llmprism.watch import logging
    from llmprism.watch.configuring import Reloading, configured
    from llmprism.watch.network import Network
    from llmprism.watch.running import Signals, refuse_wrong, run
    from llmprism.watch.sources import open_source
    from llmprism.watch.state_folder import StateFolder

    given = configured(values)
    methods.check(given.settings.method)
    network = Network(given.topology, given.names)
    with workers_at(given.settings.cluster):
        pass  # a wrong address is an error now, and an alert later
    if values["check_config"]:
        refuse_wrong(given.source, given.state, given.outputs)
        typer.echo("the configuration is right", err=True)
        return 0
    logging.begin(values["log_format"], values["quiet"])
    signals = Signals.caught()
    folder = StateFolder(given.state)
    records = open_source(given.source, folder.path)
    reloading = Reloading(given, network, lambda: configured(_again(context, values)))
    return run(records, network, folder, given.settings, given.outputs, signals, reloading.read)


def _again(context: typer.Context, before: dict[str, Any]) -> dict[str, Any]:
    """The options, with those of the file as it is now."""
    from llmprism.watch.names import present

    path, values = before["config"] and present(before["config"]), dict(before)
    context.default_map = None
    read = _options_in(context, path) if path is not None else {}
    for one in context.command.params:
        name = str(one.name)
        is_given = str(context.get_parameter_source(name)).endswith("COMMANDLINE")
        if name in values and name not in _NOT_IN_FILES and not is_given:
            raw = read.get(name, one.get_default(context))
            values[name] = one.process_value(context, raw)
    return values
