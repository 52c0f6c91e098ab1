"""A monitor with what listens to it: the terminal, Alertmanager, the live page and metrics.

Whatever is wrong with what it needs is told at once, at a start and by ``--check-config``. The
check opens the source and the port of the page as well, and lets them go; but not those of a
monitor that runs with this configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from llmprism import methods
from llmprism.cluster import workers_at
from llmprism.watch.alerts.alertmanager import Alertmanager, posts_to
from llmprism.watch.configuring import Configuration, Outputs
from llmprism.watch.history.recording import History
from llmprism.watch.listening import Listener
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Source, open_source
from llmprism.watch.state_folder import StateFolder, refuse_state
from llmprism.watch.terminal import Terminal
from prism_common.service.extras import with_monitor
from prism_common.service.guard import Guard
from prism_common.service.logging import LOGGER
from prism_common.service.signals import Signals


def prepared(given: Configuration) -> Network:
    """The network of a configuration that can be started; nothing is changed.

    Raises
    ------
    UserError : it cannot.
    """
    methods.check(given.settings.method)
    network = Network(given.topology, given.names)
    for url in given.outputs.alertmanagers:
        posts_to(url)
    with workers_at(given.settings.cluster):
        pass  # a wrong address is an error now, and an alert later
    is_running = refuse_state(given.state)
    _refuse_page(given.outputs, is_running)
    return network


def check(given: Configuration) -> None:
    """Refuse what a start refuses.

    Raises
    ------
    UserError : a start would end with it.
    """
    prepared(given)
    if given.source != "-" and not refuse_state(given.state):
        with TemporaryDirectory(prefix="llmprism-") as folder:
            open_source(given.source, Path(folder)).close()


def _refuse_page(outputs: Outputs, is_running: bool) -> None:
    if outputs.serve is None:
        return
    serving = with_monitor("prism_common.service.serving", "--serve")
    with_monitor("llmprism.watch.live.application", "--serve")
    host, port = serving.address_of(outputs.serve)
    serving.token_for(host, outputs.token_file)
    if not is_running:
        serving.bound(host, port).close()


def run(
    source: Source,
    network: Network,
    folder: StateFolder,
    settings: Settings,
    outputs: Outputs,
    signals: Signals,
    reload: Callable[[Monitor, Sequence[Listener], bool], None],
) -> int:
    """Watch until the source ends or a signal asks for it; return the exit code.

    ``reload`` is called between rounds with the monitor, its listeners, and whether a signal asks
    for it.
    """
    history = History(folder.path / "history", settings.retention_days)
    with _listening(outputs, network.guard) as listeners:
        monitor = Monitor(source, network, folder, settings, [history, *listeners])

        def reload_if_asked() -> None:
            is_asked = signals.reload.is_set()
            signals.reload.clear()
            reload(monitor, listeners, is_asked)

        return monitor.run(lambda: False, signals.ended.is_set, reload_if_asked, signals.breakable)


@contextmanager
def _listening(outputs: Outputs, guard: Guard) -> Iterator[list[Listener]]:
    with ExitStack() as stack:
        senders = [
            Alertmanager(url, outputs.addresses, guard=guard) for url in outputs.alertmanagers
        ]
        for sender in senders:
            stack.callback(sender.close)
        listeners: list[Listener] = [Terminal(), *senders]
        if outputs.serve is not None:
            shown, url = _served(outputs, outputs.serve, senders, stack, guard)
            listeners += shown
            for sender in senders:
                sender.addresses = replace(
                    sender.addresses, page_url=sender.addresses.page_url or url
                )
        yield listeners


def _served(
    outputs: Outputs, address: str, senders: list[Alertmanager], stack: ExitStack, guard: Guard
) -> tuple[list[Listener], str]:
    """What shows the page and metrics, and the URL of the page."""
    application = with_monitor("llmprism.watch.live.application", "--serve")
    metrics = with_monitor("llmprism.watch.metrics", "--serve").Metrics(senders, guard)
    serving = with_monitor("prism_common.service.serving", "--serve")
    live = application.Live(guard)
    host, port = serving.address_of(address)
    token = serving.token_for(host, outputs.token_file)
    app = application.application(live, metrics, token)
    url = stack.enter_context(serving.served(app, host, port, guard))
    stack.callback(live.end)  # before the server ends
    LOGGER.info("live page: %s", url)
    return [metrics, live], url
