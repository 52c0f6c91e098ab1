"""A monitor in tests: records that arrive in files, and rounds of its loop."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from llmprism.watch.listening import Listener
from llmprism.watch.monitor import Monitor
from llmprism.watch.names import Names
from llmprism.watch.network import Network
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.sources import open_source
from llmprism.watch.state import State
from llmprism.watch.state_folder import StateFolder

LLMPRISM = [sys.executable, "-c", "from llmprism.cli import main; main()"]
"""``llmprism`` of this source tree, as a command."""

CENTURY_NS = 2**61
SETTINGS = Settings(
    window_ns=10 * SECOND_NS,
    stride_ns=2 * SECOND_NS,
    quiet_ns=2 * SECOND_NS,
    lag_ns=CENTURY_NS,  # the records of worlds are old
)


def pieces(flows: pd.DataFrame, count: int) -> Iterator[pd.DataFrame]:
    """The records in the order in which they end, as exporters send them."""
    ordered = flows.sort_values("end_ns", kind="stable")
    for rows in np.array_split(np.arange(len(ordered)), count):
        yield ordered.iloc[rows]


def put(records: pd.DataFrame, folder: Path, name: str) -> Path:
    """Let a file appear as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden, path = folder / f".{name}", folder / name
    records.to_parquet(hidden, index=False)
    return hidden.rename(path)


@dataclass
class Watched:
    """A folder that is watched, round by round; each round is a monitor that starts again."""

    folder: Path
    settings: Settings = SETTINGS
    listeners: Sequence[Listener] = ()
    exits: list[int] = field(default_factory=list)
    source: str = ""
    names: Names | None = None

    @property
    def incoming(self) -> Path:
        """Where exporters leave files."""
        return self.folder / "incoming"

    @property
    def topology(self) -> Path:
        """The topology file."""
        return self.folder / "topology.json"

    def begin(self, topology: dict[str, Any]) -> None:
        """Write the topology."""
        self.incoming.mkdir(parents=True, exist_ok=True)
        self.topology.write_text(json.dumps(topology))

    def by_strides(self, world: Any) -> Watched:
        """Watch the records of a world by one monitor; they come in pieces of a stride."""
        self.begin(world.topology)
        ordered = world.flows.sort_values("end_ns", kind="stable")
        piece = (ordered["end_ns"] - ordered["end_ns"].min()) // self.settings.stride_ns
        later = ((f"{name}.parquet", own) for name, own in ordered.groupby(piece))

        def arrive() -> None:
            for name, own in islice(later, 1):
                put(own, self.incoming, name)

        arrive()
        self.round(int(piece.max()) + 2, arrive)
        return self

    def round(self, rounds: int = 1, between: Callable[[], object] = lambda: None) -> State:
        """Start a monitor, let it take what there is, and end it after so many rounds."""
        left = iter(range(rounds))

        def is_over() -> bool:
            between()
            return next(left) == rounds - 1

        return self.watch_until(is_over)

    def watch_until(
        self, is_over: Callable[[], bool], is_interrupted: Callable[[], bool] = lambda: False
    ) -> State:
        """Start a monitor, and end it after the round in which ``is_over`` holds."""
        folder = StateFolder(self.folder / "state")
        try:
            flows = self.source or str(self.incoming) if self.settings.has_flows else None
            source = open_source(flows, folder.path)
            network = Network(self.topology, self.names)
            monitor = Monitor(source, network, folder, self.settings, self.listeners)
            self.exits.append(monitor.run(is_over, is_interrupted))
            return folder.state
        finally:
            folder.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events that were written."""
        return events_in(self.folder / "state")

    def happened(self) -> list[tuple[str, str]]:
        """What began and ended, and the name of the alert, in order."""
        pairs = ((one["event"], one["labels"]["alertname"]) for one in self.events)
        return [pair for pair in pairs if pair[0] != "updated"]


def events_in(state: Path) -> list[dict[str, Any]]:
    """The events in the folder of a monitor."""
    path = state / "alerts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
