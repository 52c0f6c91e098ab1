"""A monitor with what listens to it: the terminal, Alertmanager, the live page and metrics."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from llmprism.watch.alerts.alertmanager import Alertmanager
from llmprism.watch.extras import with_monitor
from llmprism.watch.history.recording import History
from llmprism.watch.monitor import Listener, Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Source
from llmprism.watch.state import StateFolder
from llmprism.watch.terminal import Terminal


@dataclass(frozen=True)
class Outputs:
    """Where to tell what a monitor finds.

    Attributes
    ----------
    serve : address of the live page and of metrics; None for none.
    token_file : with the token that requests need.
    alertmanager : its URL; None for none.
    quiet : whether nothing but events and errors is printed.
    """

    serve: str | None = None
    token_file: Path | None = None
    alertmanager: str | None = None
    quiet: bool = False


def run(
    source: Source,
    network: Network,
    folder: StateFolder,
    settings: Settings,
    outputs: Outputs,
    is_over: Callable[[], bool],
) -> int:
    """Watch until the source ends or ``is_over``; return the exit code."""
    history = History(folder.path / "history", settings.retention_days)
    with _listening(outputs) as listeners:
        monitor = Monitor(source, network, folder, settings, [history, *listeners])
        return monitor.run(is_over, is_over)


def interrupted() -> threading.Event:
    """An event that is set when the user or the system asks the program to end."""
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    return asked


@contextmanager
def _listening(outputs: Outputs) -> Iterator[list[Listener]]:
    terminal = Terminal(outputs.quiet)
    alertmanager = Alertmanager(outputs.alertmanager) if outputs.alertmanager else None
    listeners: list[Listener] = [terminal, *([alertmanager] if alertmanager else [])]
    if outputs.serve is None:
        yield listeners
        return
    application = with_monitor("llmprism.watch.live.application", "--serve")
    metrics = with_monitor("llmprism.watch.metrics", "--serve").Metrics(alertmanager)
    serving = with_monitor("llmprism.watch.live.serving", "--serve")
    live = application.Live()
    host, port = serving.address_of(outputs.serve)
    token = serving.token_for(host, outputs.token_file)
    app = application.application(live, metrics, token)
    with serving.served(app, host, port) as url:
        if not outputs.quiet:
            typer.echo(f"live page: {url}", err=True)
        yield [*listeners, metrics, live]
