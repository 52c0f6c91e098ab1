"""The shared context of one running job, for its workers, groups and habits.

The parts of a job do not know the job; they know this context. Every attempt has a new one:
when the job starts and after each restart.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Network
from prism_sim.cluster.storage import Storage
from prism_sim.draws import Draws
from prism_sim.scenario.job import JobConfig
from prism_sim.training.collectives import AllReduceBase
from prism_sim.training.compute import ComputeTimes
from prism_sim.training.data_parallel import StrategyBase
from prism_sim.training.rendezvous import Rendezvous
from prism_sim.training.schedules import ScheduleBase
from prism_sim.training.steps import StepRecord
from prism_sim.training.stream import CommStream
from prism_sim.truth import SpanLog

Process = Generator[simpy.Event, object, None]


@dataclass
class Progress:
    """The steps of the present attempt, and the number of saved iterations.

    Steps count in order of time: an iteration that is repeated after a restart is a new step.

    Attributes
    ----------
    steps : numbers of the steps of the present attempt.
    saved : number of iterations in the last checkpoint.
    lost : steps of earlier attempts, complete or not, whose work was lost.
    """

    steps: range
    saved: int = 0
    lost: int = 0


@dataclass(eq=False)
class JobContext:
    """The shared state of one attempt of a job.

    Attributes
    ----------
    config : the job's layout, sizes and options.
    schedule, strategy, all_reduce : the chosen kinds.
    gpus : GPU of every rank, shape (pp, members, tp).
    network, storage : the cluster; no storage if the scenario has none.
    log : receives spans.
    draws, compute : source of random numbers, and factors on computation times.
    steps, progress : records of the steps, and the steps of this attempt.
    rendezvous : matches senders and receivers; None if messages start at once.
    streams : of the attempt's groups; those that may be left in the middle of a collective.
    """

    config: JobConfig
    schedule: ScheduleBase
    strategy: StrategyBase
    all_reduce: AllReduceBase
    gpus: NDArray[np.int64]
    network: Network
    log: SpanLog
    draws: Draws
    storage: Storage | None
    compute: ComputeTimes
    steps: StepRecord
    progress: Progress
    rendezvous: Rendezvous | None
    streams: list[CommStream] = field(default_factory=list)

    @property
    def env(self) -> Clock:
        return self.network.env

    @property
    def fabric(self) -> Fabric:
        return self.network.fabric

    @property
    def layout(self) -> Layout:
        return self.network.layout


class StepWorker(Protocol):
    """The interface of a worker for habits.

    Attributes
    ----------
    number : its number in the log.
    stage, member : its position in the job.
    """

    number: int
    stage: int
    member: int

    @property
    def parameters(self) -> int:
        """Parameters of one rank, without experts."""

    @property
    def expert_parameters(self) -> int:
        """Parameters of one rank's experts."""

    def evaluate(self, step: int, micro_batches: int) -> Process:
        """Forward passes of ``micro_batches``; nothing is sent back."""
