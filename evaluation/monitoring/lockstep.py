"""Watches a recording in lock-step: the monitor gets a stride when it asks for more.

So it is never behind, and what it finds does not depend on the speed of the machine. The position
of the source is in the state of the monitor: a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.exam.log import commit
from llmprism.ingest.sources import Source as File
from llmprism.watch.history.recording import History
from llmprism.watch.listening import Listener
from llmprism.watch.monitor import Monitor
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Taken
from llmprism.watch.state_folder import StateFolder


class Strides:
    """Records in the order in which they end: a source that gives a stride of them at a time.

    Attributes
    ----------
    borders : the first record of each stride, and the number of all.
    """

    def __init__(self, flows: Path, folder: Path, stride_ns: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(flows)
        order = np.argsort(table["end_ns"].to_numpy(), kind="stable")
        self._table, self._path = table.take(pa.array(order)), folder / "stride.parquet"
        ends = self._table["end_ns"].to_numpy()
        self.begin_ns, self.stride_ns = int(ends[0]), stride_ns
        number = (ends - self.begin_ns) // stride_ns
        self.borders = np.searchsorted(number, np.arange(int(number[-1]) + 2))

    def __len__(self) -> int:
        return self.borders.size - 1

    def take(self, position: Any, _wait_s: float) -> Taken:
        """The next stride, which says until when it has everything; after the last one, the end."""
        number = int(position or 0)
        if number >= len(self):
            return Taken([], number, is_end=True)
        first, last = self.borders[number : number + 2].tolist()
        pq.write_table(self._table.slice(first, last - first), self._path)
        until_ns = self.begin_ns + (number + 1) * self.stride_ns
        return Taken([File(self._path, point="")], number + 1, watermark_ns=until_ns)

    def stored(self, taken: Taken) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Nothing is open."""


def watch(
    source: Strides,
    topology: Path,
    folder: Path,
    settings: Settings,
    *listeners: Listener,
    share: float = 1.0,
) -> StateFolder:
    """Let a monitor watch a share of a source; its state and history are in ``folder``.

    A later call goes on behind what was watched before, and notes the version of the code if it is
    another one.
    """
    state = StateFolder(folder / "state")
    history = History(state.path / "history", 36_500)

    def is_over() -> bool:
        return share < 1 and int(state.state.position or 0) >= share * len(source)

    try:
        if not is_over() and int(state.state.position or 0) < len(source):
            _note_version(folder)
            all_listeners = [history, *listeners]
            Monitor(source, Network(topology), state, settings, all_listeners).run(is_over)
        return state
    finally:
        state.close()


def versions(folder: Path) -> list[str]:
    """The commits of the code that has watched a recording, in order."""
    path = folder / "versions.json"
    found: list[str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return found


def _note_version(folder: Path) -> None:
    """Add the present commit if it is another one."""
    known = versions(folder)
    if commit() not in known[-1:]:
        text = json.dumps([*known, commit()])
        (folder / "versions.json").write_text(text, encoding="utf-8")
