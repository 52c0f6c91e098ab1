"""How many records a second of CPU time is enough for, if a job is followed and if it is diagnosed.

The records of a job of 128 GPUs arrive in files of one stride. A round of the monitor either
diagnoses its window or follows the job.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.lockstep import Strides, watch
from llmprism.watch.listening import Listener
from llmprism.watch.settings import SECOND_NS, Settings
from llmprism.watch.sources import Taken
from llmprism.watch.state import State
from llmprism.watch.tracking.tracker import CALM
from llmprism.watch.view import View
from prism_sim.loading.loader import load

SETTINGS = Settings(window_ns=60 * SECOND_NS, stride_ns=10 * SECOND_NS, lag_ns=2**61)
_JOB = "benchmarks/job.yaml"
_CHANGES = {"duration_s": 200, "jobs.0.dp": 2, "cluster.servers": 16}


class Rounds(Strides, Listener):
    """Records that arrive stride by stride, and the CPU time of each round [s]."""

    def __init__(self, flows: Path, folder: Path) -> None:
        super().__init__(flows, folder, SETTINGS.stride_ns)
        self.diagnosed_s: list[float] = []
        self.followed_s: list[float] = []
        self._began_s = 0.0
        self._times_s: list[float] | None = None  # those that the present round belongs to

    def take(self, position: Any, wait_s: float) -> Taken:
        """The next stride; the round before is over."""
        if self._times_s is not None:
            self._times_s.append(time.process_time() - self._began_s)
        taken = replace(super().take(position, wait_s), watermark_ns=None)
        self._began_s = time.process_time()
        return taken

    def diagnosed(self, state: State, view: View) -> None:
        """The window of this round is diagnosed."""
        self._times_s = self.diagnosed_s

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """It is not."""
        self._times_s = self.followed_s


@dataclass(frozen=True)
class Rates:
    """Records in a second of CPU time.

    Attributes
    ----------
    stride : records that arrive in a stride.
    diagnosed, followed : if each window is diagnosed, and if none is.
    calm : if one of CALM windows is diagnosed.
    """

    stride: int
    diagnosed: float
    followed: float

    @property
    def calm(self) -> float:
        """The rate of a monitor to which nothing happens."""
        strides = CALM * SETTINGS.window_ns / SETTINGS.stride_ns
        return strides / ((strides - 1) / self.followed + 1 / self.diagnosed)


def measure(folder: Path) -> Rates:
    """Watch the job in ``folder``."""
    run = simulated(load(_JOB, _CHANGES), RESULTS / "worlds")
    rounds = Rounds(run.flows, folder)
    watch(rounds, run.topology, folder, SETTINGS, rounds)
    stride = int(np.median(np.diff(rounds.borders)))
    diagnosed_s = float(np.max(rounds.diagnosed_s))  # that of a whole window
    return Rates(stride, stride / diagnosed_s, stride / float(np.median(rounds.followed_s)))
