"""What every job in the cluster has, whatever its workers do: GPUs, steps, and records of them."""

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
from prism_sim.scenario.traced_job import AnyJob
from prism_sim.truth import SpanLog, by_rank


class Works(Protocol):
    """A worker of a job: one rank, or ranks that move in lock-step."""

    number: int
    first_rank: int
    slowdowns: list[float]

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when this worker begins ``step``."""

    def run(self) -> Generator[simpy.Event, object, None]:
        """All that the worker does, as a SimPy process."""


M = TypeVar("M", bound=AnyJob, covariant=True)
W = TypeVar("W", bound=Works, covariant=True)


class PlacedJob(ABC, Generic[M, W]):
    """One job on its GPUs.

    Parameters
    ----------
    model : the job as the scenario has it.
    gpus : GPU of every rank, shape (stages, members, tp).
    network, log : the cluster, and where spans go.

    Attributes
    ----------
    workers : those who do the job's work, in the order of their ranks.
    steps_done : steps that workers have finished, over all of them.
    """

    workers: Sequence[W]

    def __init__(self, model: M, gpus: NDArray[np.int64], network: Network, log: SpanLog) -> None:
        self.model = model
        self.gpus = gpus
        self.network = network
        self.env = network.env
        self.layout = network.layout
        self.fabric = network.fabric
        self.log = log
        self.steps_done = 0
        self._steps: list[tuple[int, int, int, int]] = []
        self._began: set[int] = set()
        self._at_step: dict[int, list[Callable[[], None]]] = {}

    @abstractmethod
    def places(self) -> dict[str, NDArray[np.int64]]:
        """Place of every rank along each kind of parallelism (dp, pp, tp, ep, cp)."""

    def start(self) -> list[simpy.Process]:
        """Set every worker to work; returns their processes."""
        return [self.env.process(worker.run()) for worker in self.workers]

    def worker_of(self, rank: int) -> W:
        return self.workers[rank * len(self.workers) // self.gpus.size]

    def address_of(self, rank: int) -> str:
        return self.layout.addresses[self.layout.nic_of_gpu(int(self.gpus.flat[rank]))]

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when the first worker begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def began(self, step: int) -> None:
        if step not in self._began:
            self._began.add(step)
            for call in self._at_step.pop(step, ()):
                call()

    def step_done(self, number: int, step: int, start_ns: int, end_ns: int) -> None:
        """Note that the worker with ``number`` in the log is through with ``step``."""
        self._steps.append((number - self.workers[0].number, step, start_ns, end_ns))
        self.steps_done += 1

    def steps(self, epoch_ns: int) -> pd.DataFrame:
        """Truth: the steps of every rank that were finished."""
        first_rank = [worker.first_rank for worker in self.workers]
        ranks_each = self.gpus.size // len(self.workers)
        return by_rank(self.model.name, first_rank, ranks_each, self._steps, epoch_ns)

    def ranks(self) -> pd.DataFrame:
        """Truth: where every rank runs and what it is."""
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
