"""What a monitor reads again at SIGHUP: topology, names and bounds.

What is wrong changes nothing, and is reported. So is what cannot change while the monitor runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llmprism.watch.alerts.alertmanager import Alertmanager
from llmprism.watch.configuring import Configuration
from llmprism.watch.listening import Listener
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from prism_common.service.guard import CONFIGURATION
from prism_common.service.logging import LOGGER

_FIXED = ("source", "topology", "state")


@dataclass
class Reloading:
    """Reads the configuration again; ``present`` is the one that holds."""

    present: Configuration
    network: Network
    again: Callable[[], Configuration]

    def read(self, monitor: Monitor, listeners: Sequence[Listener], is_asked: bool) -> None:
        """Bring a monitor up to date with its configuration, if that is asked for."""
        found = self.network.guard.read(CONFIGURATION, self._read, is_asked)
        if found is None:
            return
        fresh, network = found
        self.network.adopt(network)
        before, self.present = self.present, fresh
        fixed = [name for name in _FIXED if getattr(before, name) != getattr(fresh, name)]
        outputs = replace(fresh.outputs, addresses=before.outputs.addresses)
        fixed += ["outputs"] if outputs != before.outputs else []
        if fixed:
            LOGGER.warning("a new start is needed for what has changed in: %s", ", ".join(fixed))
        monitor.adopt(fresh.settings)
        for one in listeners:
            if isinstance(one, Alertmanager):
                given = fresh.outputs.addresses
                page_url = given.page_url or one.addresses.page_url
                one.addresses = replace(given, page_url=page_url)
        LOGGER.info("topology, names and configuration were read again")

    def _read(self) -> tuple[Configuration, Network]:
        fresh = self.again()
        return fresh, Network(self.present.topology, fresh.names)
