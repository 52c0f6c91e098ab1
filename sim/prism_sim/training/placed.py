"""Base of every job in the cluster: its GPUs, its workers, and the record of its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import pandas as pd
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.network import Network
from prism_sim.scenario.names import server_name
from prism_sim.scenario.traced_job import AnyJobConfig
from prism_sim.training.compute import SpeedFactors, Varied
from prism_sim.training.steps import StepRecord
from prism_sim.truth import SpanLog, by_rank

HICCUP = 0.03
"""Share of the median step of a job, from which on more work by chance is a hiccup."""


class JobWorker(Protocol):
    """A worker of a job: one rank, or several ranks in lock-step."""

    number: int
    first_rank: int
    speed_factors: SpeedFactors
    step: int

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when this worker begins ``step``."""

    def run(self) -> Generator[simpy.Event, object, None]:
        """All actions of the worker, as a SimPy process."""


M = TypeVar("M", bound=AnyJobConfig, covariant=True)
W = TypeVar("W", bound=JobWorker, covariant=True)


class PlacedJob(ABC, Generic[M, W]):
    """One job on its GPUs.

    Parameters
    ----------
    model : the configuration of the job.
    gpus : GPU of every rank, shape (stages, members, tp).
    network, log : the cluster, and the log of spans.
    workers : number of workers.

    Attributes
    ----------
    workers : the job's workers, in the order of their ranks.
    record : the steps of its workers.
    varied : random quantities that faults change in some steps.
    may_fail : whether faults may stop the job; set before it starts.
    attempts : number of the first step of each attempt, and of earlier steps that were lost.
    failures : for each attempt that failed: when, how long until it was noticed [simulation ns],
        and whether one of the job's ``restarts`` planned it.
    """

    workers: Sequence[W]

    def __init__(
        self, model: M, gpus: NDArray[np.int64], network: Network, log: SpanLog, workers: int
    ) -> None:
        self.model = model
        self.gpus = gpus
        self.network = network
        self.env = network.env
        self.layout = network.layout
        self.fabric = network.fabric
        self.log = log
        self.record = StepRecord(workers)
        self.may_fail = False
        self.attempts = [(0, 0)]
        self.failures: list[tuple[int, int, bool]] = []
        self.varied: Varied = {"length_spread": [], "expert_imbalance": []}

    @abstractmethod
    def places(self) -> dict[str, NDArray[np.int64]]:
        """Position of every rank along each kind of parallelism (dp, pp, tp, ep, cp)."""

    def plan(self) -> dict[str, int | str]:
        """Truth: ``micro_batches`` of a step, ``schedule`` and ``sharding``.

        -1 and ``unknown`` for a job that follows a trace.
        """
        return {"micro_batches": -1, "schedule": "unknown", "sharding": "unknown"}

    def start(self) -> list[simpy.Process]:
        """Start every worker; returns their processes."""
        return [self.env.process(worker.run()) for worker in self.workers]

    def worker_of(self, rank: int) -> W:
        return self.workers[rank * len(self.workers) // self.gpus.size]

    def first_ranks(self) -> NDArray[np.int64]:
        """First rank of every worker."""
        return np.arange(len(self.workers)) * (self.gpus.size // len(self.workers))

    def fail(self, rank: int | None, noticed_after_ns: int, down_ns: int | None) -> None:
        """Let the present attempt fail: it is stopped when this is noticed, and restarts later.

        ``rank`` stops at once. The job does not restart if ``down_ns`` is None. A job that follows
        a trace does not fail.
        """

    @property
    def next_step(self) -> int:
        """The first step that no worker has begun."""
        return max(self.record.began, default=-1) + 1

    def nvlink_share(self, rank: int) -> float:
        """Part of the duration of a rank's passes that its group communicates over NVLink."""
        return 0.0

    def address_of(self, rank: int) -> str:
        return self.layout.addresses[self.layout.nic_of_gpu(int(self.gpus.flat[rank]))]

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when the first worker begins ``step``."""
        self.record.at_step(step, call)

    @property
    def steps_done(self) -> int:
        """Steps that workers have finished, over all of them."""
        return len(self.record.rows)

    def steps(self, epoch_ns: int) -> pd.DataFrame:
        """Truth: the finished steps of every rank."""
        ranks_each = self.gpus.size // len(self.workers)
        return by_rank(self.model.name, ranks_each, self.record.rows, epoch_ns)

    def hiccups(self) -> pd.DataFrame:
        """Truth: ranks and steps whose own work chance makes longer by :data:`HICCUP` of a step."""
        lengths_ns = [end_ns - start_ns for _, _, start_ns, end_ns in self.record.rows]
        least_ns = HICCUP * float(np.median(lengths_ns)) if lengths_ns else np.inf
        ranks_each = self.gpus.size // len(self.workers)
        rows = [
            (self.model.name, first + member, step, round(extra_ns))
            for (first, step), extra_ns in sorted(self.record.varied_ns.items())
            if extra_ns >= least_ns
            for member in range(ranks_each)
        ]
        return pd.DataFrame(rows, columns=["job", "rank", "step", "extra_ns"])

    def ranks(self) -> pd.DataFrame:
        """Truth: the GPU and the position of every rank."""
        layout, gpus = self.layout, self.gpus.ravel()
        return pd.DataFrame(
            {
                "job": self.model.name,
                "rank": np.arange(len(gpus)),
                "address": [layout.addresses[layout.nic_of_gpu(int(g))] for g in gpus],
                "server": [server_name(layout.server_of_gpu(int(g))) for g in gpus],
                "gpu": gpus % layout.cluster.gpus_per_server,
                **self.places(),
            }
        )
