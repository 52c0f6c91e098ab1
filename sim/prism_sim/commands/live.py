"""A simulated run as if it happened now: its records arrive at a monitor, which serves a page.

The times of the records are moved so that the last of them would end now. A record arrives when as
much time has passed since the start as there is in the run up to its end, divided by the speed.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.ingest.sources import Source as File
from llmprism.watch.configuring import Outputs
from llmprism.watch.network import Network
from llmprism.watch.running import run
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.sources import Taken
from llmprism.watch.state_folder import StateFolder
from prism_common.service import logging
from prism_common.service.signals import Signals
from prism_sim.commands.session import Session
from prism_sim.run_folder import Run

PAGE = "127.0.0.1:0"  # any free port of this machine
_STRIDES = 8  # diagnoses in a short run
_FOREVER_S = 1e9  # after its last record, the page of a run stays


class Replay:
    """The records of a run, as they come.

    Parameters
    ----------
    speed : seconds of the run in one second.
    """

    def __init__(self, flows: Path, folder: Path, speed: float) -> None:
        table = pq.read_table(flows)
        end_ns = table["end_ns"].to_numpy()
        order = np.argsort(end_ns, kind="stable")
        shift = time.time_ns() - int(end_ns.max(initial=0))
        self._records = _moved(table.take(pa.array(order)), shift)
        self._end_ns = end_ns[order] - (end_ns.min() if end_ns.size else 0)
        self._folder, self._speed = folder, speed
        self._began_s = time.monotonic()

    @property
    def lasts_ns(self) -> int:
        """Time from the end of the first record to that of the last one [ns]."""
        return int(self._end_ns.max(initial=0))

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the records that are due; ``position`` counts those before."""
        before = int(position or 0)
        due = before
        deadline = time.monotonic() + wait_s
        while due == before and time.monotonic() < deadline:
            passed_ns = (time.monotonic() - self._began_s) * self._speed * SECOND_NS
            due = int(np.searchsorted(self._end_ns, passed_ns, side="right"))
            time.sleep(min(wait_s, 0.2))
        if due == before:
            return Taken([], before)
        path = self._folder / f"{due}.parquet"
        pq.write_table(self._records.slice(before, due - before), path)
        return Taken([File(path, point="")], due)

    def stored(self, taken: Taken) -> None:
        """Remove the file."""
        for file in taken.files:
            file.path.unlink()

    def close(self) -> None:
        """Nothing is open."""


def show_live(session: Session, made: Run, speed: float, method: str) -> int:
    """Show a run live until the user interrupts; return the exit code of the monitor."""
    with tempfile.TemporaryDirectory(prefix="prism-sim-live-") as name:
        folder = Path(name)
        replay = Replay(made.flows, folder, speed)
        defaults = Settings()
        settings = Settings(
            window_ns=max(1, min(defaults.window_ns, replay.lasts_ns)),
            stride_ns=max(1, min(defaults.stride_ns, replay.lasts_ns // _STRIDES)),
            quiet_ns=max(1, min(defaults.quiet_ns, replay.lasts_ns // _STRIDES)),
            silence_s=_FOREVER_S,
            lag_ns=replay.lasts_ns + defaults.lag_ns,
            method=method,
        )
        session.note("press Ctrl-C to end")
        logging.begin("text", session.quiet)
        network, state = Network(made.topology), StateFolder(folder / "state")
        outputs, signals = Outputs(serve=PAGE), Signals.caught()
        return run(replay, network, state, settings, outputs, signals, lambda *_: None)


def _moved(table: pa.Table, shift_ns: int) -> pa.Table:
    for name in ("start_ns", "end_ns"):
        moved = pa.array(table[name].to_numpy() + shift_ns)
        table = table.set_column(table.schema.get_field_index(name), name, moved)
    return table
