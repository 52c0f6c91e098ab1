"""A training job in the cluster: what its workers share, and its records.

The job lays its ranks out on (pp, member, tp) and keeps what its workers share: the clock, the
fabric, the logs, and the draws of its jitter. How workers reach each other is
:mod:`prism_sim.training.wiring`'s business.
"""

from __future__ import annotations

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_sim.cluster.network import Network
from prism_sim.cluster.storage import Storage
from prism_sim.draws import Draws
from prism_sim.scenario.job import Job
from prism_sim.training.costs import pipeline_message_bytes
from prism_sim.training.habits import HABITS
from prism_sim.training.lives import Lives, inherit
from prism_sim.training.meeting import Meetings
from prism_sim.training.placed import PlacedJob
from prism_sim.training.wiring import Wiring
from prism_sim.training.worker import Worker
from prism_sim.truth import SpanLog

LONGEST = 4.0
"""Longest micro-batch, in nominal ones: packing puts a bound to the tail of a lognormal."""


class TrainingJob(PlacedJob[Job, Worker]):
    """One job on its GPUs.

    Parameters
    ----------
    model : the job as the scenario has it.
    gpus : GPU of every rank, shape (pp, members, tp).
    network, log, draws : the cluster, where spans go, and where randomness comes from.
    storage : where it saves to and reads from, if anywhere.

    Attributes
    ----------
    steps_ahead : numbers, in time, of the steps of the job's present life.
    saved : how many of its iterations a checkpoint holds.
    """

    def __init__(
        self,
        model: Job,
        gpus: NDArray[np.int64],
        network: Network,
        log: SpanLog,
        draws: Draws,
        storage: Storage | None = None,
    ) -> None:
        super().__init__(model, gpus, network, log)
        lines = self.layout.cluster.queue_pairs
        self.flow_bytes = -(-pipeline_message_bytes(model) // lines)
        self.draws = draws
        self.storage = storage
        self._done_by: dict[int, int] = {}
        self._finished = 0
        self.steps_ahead = range(model.steps)
        self.saved = 0
        self._wire()

    def _wire(self) -> None:
        library = self.model.library
        self.meetings = Meetings(self.network, library.control_bytes) if library else None
        self.workers = Wiring(self).workers()
        self.habits = [habit for make in HABITS for habit in make(self)]

    def start(self) -> list[simpy.Process]:
        """Set every worker to work; returns the processes that end with the job."""
        if self.model.restarts:
            return [self.env.process(Lives(self).run())]
        return super().start()

    @property
    def lost(self) -> int:
        """Steps that were made in vain, or only begun, before the present life."""
        return self.steps_ahead.stop - self.model.steps

    def begin_anew(self) -> None:
        """New workers and connections, for the iterations that no checkpoint holds.

        Without checkpoints the job goes on where the last step that all had done left it.
        """
        first, before = max(self._began) + 1, self.workers
        done = self.saved
        if not self.model.checkpoint:
            done = max(self._finished, self.steps_ahead.start) - self.lost
        self.steps_ahead = range(first, first + self.model.steps - done)
        self.network.router.renew(self.model.name)
        self._wire()
        for heir, worker in zip(self.workers, before, strict=True):
            inherit(heir, worker, first)

    def step_done(self, number: int, step: int, start_ns: int, end_ns: int) -> None:
        super().step_done(number, step, start_ns, end_ns)
        self._done_by[step] = self._done_by.get(step, 0) + 1
        if self._done_by[step] == len(self.workers):
            del self._done_by[step]
            self._finished = step + 1

    def jitter(self, rank: int, step: int, rows: int) -> NDArray[np.float64]:
        """Factor on every pass, shape (rows, micro-batches); a row for each kind and chunk."""
        shape = (rows, self.model.micro_batches)
        if self.model.compute_jitter == 0:
            return np.ones(shape)
        stream = self.draws.stream("compute", self.model.name, rank, step)
        normal = stream.standard_normal(shape[::-1]).T  # more micro-batches change no other draw
        return np.exp(self.model.compute_jitter * normal)

    def lengths(self, member: int, step: int) -> list[float] | None:
        """Tokens of each micro-batch relative to the nominal ones; None if all are nominal.

        All stages of a replica, and the ranks that share its sequences, see the same.
        """
        model = self.model
        if not model.length_spread:
            return None
        stream = self.draws.stream("lengths", model.name, member // model.cp, step)
        normal = stream.standard_normal(model.micro_batches)
        factor = np.minimum(np.exp(model.length_spread * normal), LONGEST)
        return [float(f) for f in factor]

    def warmth(self, step: int) -> float:
        """Factor on the compute of ``step``: above 1 while the job warms up."""
        model = self.model
        warm = (step - self.steps_ahead.start) / max(1, model.warm_up_steps)
        cold = max(0.0, 1 - warm) if model.warm_up_steps else 0.0
        return 1 + (model.warm_up_factor - 1) * cold

    def overhead_ns(self, rank: int, step: int) -> int:
        """Host time before ``step`` that no switch sees [ns]."""
        sigma = self.model.step_overhead_jitter
        factor = 1.0
        if sigma:
            stream = self.draws.stream("overhead", self.model.name, rank, step)
            factor = float(np.exp(sigma * stream.standard_normal()))
        return round(self.model.step_overhead_ms * 1e6 * factor)

    def places(self) -> dict[str, NDArray[np.int64]]:
        """Place of every rank along each kind of parallelism.

        Rank numbers run over tp, cp, ep, dp and pp, fastest first, as in Megatron-LM. Expert
        parallelism takes its ranks from the replicas, so ``dp`` counts dp / ep of them.
        """
        pp, member, tp = np.unravel_index(np.arange(self.gpus.size), self.gpus.shape)
        replica, cp = np.divmod(member, self.model.cp)
        dp, ep = np.divmod(replica, self.model.ep)
        return {"dp": dp, "pp": pp, "tp": tp, "ep": ep, "cp": cp}
