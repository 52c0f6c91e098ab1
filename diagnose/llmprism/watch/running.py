"""A monitor with what listens to it: the terminal, Alertmanager, the live page and metrics."""

from __future__ import annotations

import errno
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from llmprism.io.sources import STANDARD_INPUT
from llmprism.watch.alerts.alertmanager import Addresses, Alertmanager, place_for
from llmprism.watch.history.recording import History
from llmprism.watch.listening import Listener
from llmprism.watch.logging import LOGGER
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings, with_monitor
from llmprism.watch.sources import Source, open_source
from llmprism.watch.state import State
from llmprism.watch.state_folder import StateFolder, compact, refuse_folder
from prism_common.errors import UserError


@dataclass(frozen=True)
class Outputs:
    """Where to tell what a monitor finds.

    Attributes
    ----------
    serve : address of the live page and of metrics; None for none.
    token_file : with the token that requests need.
    alertmanagers : their URLs.
    addresses : what alerts say about where to find more; the page is that of ``serve`` by default.
    """

    serve: str | None = None
    token_file: Path | None = None
    alertmanagers: tuple[str, ...] = ()
    addresses: Addresses = field(default_factory=Addresses)


@dataclass
class Signals:
    """What the process was asked for by signals."""

    ended: threading.Event
    reload: threading.Event

    @staticmethod
    def caught() -> Signals:
        """Catch SIGINT and SIGTERM, and SIGHUP."""
        found = Signals(threading.Event(), threading.Event())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: found.ended.set())
        signal.signal(signal.SIGHUP, lambda *_: found.reload.set())
        return found


def run(
    source: Source,
    network: Network,
    folder: StateFolder,
    settings: Settings,
    outputs: Outputs,
    signals: Signals,
    reload: Callable[[Monitor, Sequence[Listener]], None],
) -> int:
    """Watch until the source ends or a signal asks for it; return the exit code.

    ``reload`` is called with the monitor and its listeners between rounds, if a signal asks for it.
    """
    history = History(folder.path / "history", settings.retention_days)
    with _listening(outputs) as listeners:
        monitor = Monitor(source, network, folder, settings, [history, *listeners])

        def is_over() -> bool:
            if signals.reload.is_set():
                signals.reload.clear()
                reload(monitor, listeners)
            return signals.ended.is_set()

        return monitor.run(is_over, signals.ended.is_set)


@contextmanager
def _listening(outputs: Outputs) -> Iterator[list[Listener]]:
    with ExitStack() as stack:
        senders = [Alertmanager(url, outputs.addresses) for url in outputs.alertmanagers]
        for sender in senders:
            stack.callback(sender.close)
        listeners: list[Listener] = [Terminal(), *senders]
        if outputs.serve is not None:
            shown, url = _served(outputs, outputs.serve, senders, stack)
            listeners += shown
            for sender in senders:
                sender.addresses = replace(
                    sender.addresses, page_url=sender.addresses.page_url or url
                )
        yield listeners


def _page_of(outputs: Outputs, address: str) -> tuple[str, int, str]:
    """Host and port of the page, and the token that requests need."""
    serving = with_monitor("llmprism.watch.live.serving", "--serve")
    host, port = serving.address_of(address)
    return host, port, serving.token_for(host, outputs.token_file)


def refuse_wrong(source: str | None, state: Path, outputs: Outputs) -> None:
    """Raise what a start would, but for a port in use: a monitor may run already."""
    refuse_folder(state)
    for url in outputs.alertmanagers:
        place_for(url)
    if outputs.serve is not None:
        _page_of(outputs, outputs.serve)
    try:
        with TemporaryDirectory() as folder:
            if source != STANDARD_INPUT:
                open_source(source, Path(folder)).close()
    except UserError as error:
        if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
            raise


def _served(
    outputs: Outputs, address: str, senders: list[Alertmanager], stack: ExitStack
) -> tuple[list[Listener], str]:
    """What shows the page and metrics, and the URL of the page."""
    application = with_monitor("llmprism.watch.live.application", "--serve")
    metrics = with_monitor("llmprism.watch.metrics", "--serve").Metrics(senders)
    serving = with_monitor("llmprism.watch.live.serving", "--serve")
    live = application.Live()
    host, port, token = _page_of(outputs, address)
    app = application.application(live, metrics, token)
    url = stack.enter_context(serving.served(app, host, port))
    stack.callback(live.end)  # before the server ends
    LOGGER.info("live page: %s", url)
    return [metrics, live], url


_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


class Terminal(Listener):
    """Prints events as they are written."""

    def happened(self, state: State, events: Sequence[dict[str, Any]]) -> None:
        """Print the events; what is over has the level of information."""
        for event in events:
            typer.echo(compact(event))
            labels = event["labels"]
            level = _LEVELS.get(labels.get("severity", ""), logging.WARNING)
            is_over = event["event"] == "resolved"
            words = (event["event"], labels["alertname"], event["annotations"]["summary"])
            LOGGER.log(logging.INFO if is_over else level, "%s: %s: %s", *words)

    def failed_to_store(self, text: str) -> None:
        """Print why the state cannot be written."""
        if text:
            LOGGER.error("StateNotWritten: cannot write the state: %s", text)
        else:
            LOGGER.info("the state is written again")
