"""A training job in the cluster: it assembles its workers and keeps its records.

Ranks are laid out on (pp, member, tp). The shared state of workers is their
:class:`~prism_sim.training.context.JobContext`; :mod:`prism_sim.training.workers` builds and
connects them.
"""

from __future__ import annotations

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.network import Network
from prism_sim.cluster.storage import Storage
from prism_sim.draws import Draws
from prism_sim.training.compute import ComputeTimes
from prism_sim.training.config import TrainingConfig
from prism_sim.training.context import JobContext, Progress
from prism_sim.training.groups import FINAL_SPANS
from prism_sim.training.messages import MESSAGE_SPANS
from prism_sim.training.placed import PlacedJob
from prism_sim.training.rendezvous import Rendezvous
from prism_sim.training.restarts import Failure, Supervision, attempts, stop
from prism_sim.training.worker import UPDATE, Worker
from prism_sim.training.workers import Assembly
from prism_sim.truth import SpanLog


class TrainingJob(PlacedJob[TrainingConfig, Worker]):
    """One job on its GPUs.

    Parameters
    ----------
    model : the configuration of the job.
    gpus : GPU of every rank, shape (pp, members, tp).
    network, log, draws : the cluster, the log of spans, and the source of random numbers.
    storage : the storage servers that it uses, if any.
    """

    def __init__(
        self,
        model: TrainingConfig,
        gpus: NDArray[np.int64],
        network: Network,
        log: SpanLog,
        draws: Draws,
        storage: Storage | None = None,
    ) -> None:
        super().__init__(model, gpus, network, log, model.stages * model.members)
        self._draws = draws
        self._storage = storage
        self._progress = Progress(range(model.steps))
        self.supervision = Supervision()
        log.declare(_spans(model))
        self.workers = self._assemble()

    def _assemble(self) -> list[Worker]:
        """The workers of a new attempt, with new connections."""
        model, library = self.model, self.model.library
        context = JobContext(
            config=model,
            schedule=model.schedule,
            strategy=model.strategy,
            all_reduce=model.all_reduce,
            gpus=self.gpus,
            network=self.network,
            log=self.log,
            draws=self._draws,
            storage=self._storage,
            compute=ComputeTimes(model, self._draws, self.varied),
            steps=self.record,
            progress=self._progress,
            rendezvous=Rendezvous(self.network, library.control_bytes) if library else None,
        )
        self._context = context
        habits = [habit.start(context) for habit in model.habits]
        return Assembly(context, model.exchanges, habits).workers()

    def start(self) -> list[simpy.Process]:
        """Start every worker; returns the processes, which end with the job."""
        if self.model.restarts or self.may_fail:
            restarts, name = self.model.restarts, self.model.name
            process = attempts(self, name, restarts, lasting=self.may_fail)
            return [self.env.process(process)]
        return super().start()

    def fail(self, rank: int | None, noticed_after_ns: int, down_ns: int | None) -> None:
        if rank is not None:
            victim = self.workers.index(self.worker_of(rank))
            if self.supervision.processes:
                stop(self.supervision.processes[victim])
        self.supervision.fail(Failure(noticed_after_ns, down_ns))

    def abandon(self, failed_ns: int) -> None:
        for stream in self._context.streams:
            stream.abandon(failed_ns)
        for worker in self.workers:
            worker.abandon()
        if self._context.rendezvous is not None:
            self._context.rendezvous.abandon()

    def restart(self) -> None:
        """Make new workers and connections, for the iterations that are not in a checkpoint.

        Without checkpoints the job continues with the first step that some worker has not finished.
        """
        model, progress = self.model, self._progress
        first, before = max(self.record.began) + 1, self.workers
        done = progress.saved
        if not any(habit.saves_progress for habit in model.habits):
            done = max(self.record.finished, progress.steps.start) - progress.lost
        progress.steps = range(first, first + model.steps - done)
        progress.lost = progress.steps.stop - model.steps
        self.attempts.append((first, progress.lost))
        self.network.router.renew(model.name)
        self.workers = self._assemble()
        for successor, worker in zip(self.workers, before, strict=True):
            successor.take_over(worker, first)

    def nvlink_share(self, rank: int) -> float:
        return self.worker_of(rank).cost.nvlink_share

    def places(self) -> dict[str, NDArray[np.int64]]:
        """Position of every rank along each kind of parallelism.

        Rank numbers run over tp, cp, ep, dp and pp, fastest first, as in Megatron-LM. Expert
        parallelism takes its ranks from the replicas, so ``dp`` counts dp / ep of them.
        """
        pp, member, tp = np.unravel_index(np.arange(self.gpus.size), self.gpus.shape)
        replica, cp = np.divmod(member, self.model.cp)
        dp, ep = np.divmod(replica, self.model.ep)
        return {"dp": dp, "pp": pp, "tp": tp, "ep": ep, "cp": cp}

    def plan(self) -> dict[str, int | str]:
        model = self.model
        return {
            "micro_batches": model.micro_batches,
            "schedule": model.schedule.kind if model.pp > 1 else "none",
            "sharding": model.strategy.sharding(model),
        }


def _spans(model: TrainingConfig) -> list[str]:
    """Kinds of spans of the job in the truth, as its parts declare them."""
    parts = (
        model.schedule.spans,
        (UPDATE,),
        *MESSAGE_SPANS,
        model.strategy.all_spans(model, model.all_reduce.spans),
        FINAL_SPANS,
        *(exchange.spans for exchange in model.exchanges),
        *(habit.spans for habit in model.habits),
    )
    return [kind for part in parts for kind in part]
