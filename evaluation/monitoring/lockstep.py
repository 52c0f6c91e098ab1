"""Watches a recording in lock-step: the monitor gets a stride when it asks for more.

So it is never behind, and what it finds does not depend on the speed of the machine. The position
of the source is in the state of the monitor: a run that was interrupted goes on where it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.ingest.sources import Source as File
from llmprism.watch.history.recording import History
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Taken
from llmprism.watch.state_folder import StateFolder


class Strides:
    """The records of a recording, stride by stride, in the order in which they end."""

    def __init__(self, flows: Path, folder: Path, stride_ns: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(flows)
        ends = table["end_ns"].to_numpy()
        order = np.argsort(ends, kind="stable")
        self._table = table.take(pa.array(order))
        self._begin_ns, self._stride_ns = int(ends.min()), stride_ns
        number = (ends[order] - self._begin_ns) // stride_ns
        self.borders = np.searchsorted(number, np.arange(int(number[-1]) + 2))
        self._path = folder / "stride.parquet"

    def __len__(self) -> int:
        return self.borders.size - 1

    def take(self, position: Any, _wait_s: float) -> Taken:
        """The next stride; after the last one, the end."""
        number = int(position or 0)
        if number >= len(self):
            return Taken([], number, is_end=True)
        first, last = self.borders[number : number + 2].tolist()
        pq.write_table(self._table.slice(first, last - first), self._path)
        until_ns = self._begin_ns + (number + 1) * self._stride_ns
        return Taken([File(self._path, point="")], number + 1, watermark_ns=until_ns)

    def stored(self, taken: Taken) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Nothing is open."""


def watch(
    flows: Path,
    topology: Path,
    folder: Path,
    settings: Settings,
    share: float = 1.0,
) -> Path:
    """Watch a share of a recording; return the folder of the monitor's state.

    A later call goes on behind what was watched before.
    """
    source = Strides(flows, folder / "strides", settings.stride_ns)
    state, network = StateFolder(folder / "state"), Network(topology)
    history = History(state.path / "history", 36_500)

    def is_over() -> bool:
        return share < 1 and int(state.state.position or 0) >= share * len(source)

    try:
        if is_over() or int(state.state.position or 0) >= len(source):
            return state.path
        Monitor(source, network, state, settings, [history]).run(is_over)
        return state.path
    finally:
        state.close()
