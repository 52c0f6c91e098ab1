"""How the workers of a job are made and reach each other.

For every stage there are the groups that its replicas communicate in; for every pair of
stages that hand messages on, a way there and a way back; and for every worker the list of
what it does in a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prism_sim.cluster.network import Line
from prism_sim.training.collectives import ALGORITHMS, Group
from prism_sim.training.costs import StageCost, stage_costs
from prism_sim.training.data_parallel import STRATEGIES, DataParallel, Family, Pass
from prism_sim.training.program import PLAIN, Program, woven
from prism_sim.training.schedules import (
    BACKWARD,
    FORWARD,
    SCHEDULES,
    WEIGHTS,
    Place,
    Work,
    gradient_kind,
)
from prism_sim.training.seats import HybridSeat, Seat
from prism_sim.training.stream import CommStream
from prism_sim.training.worker import Item, Peer, Way, Worker

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob


class Wiring:
    """Makes the workers of ``job`` and connects them."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self._model = job.model
        self._ways: dict[tuple[int, int, int], Way] = {}

    def workers(self) -> list[Worker]:
        """All workers, stage by stage, each with its agenda."""
        model, log = self._model, self._job.log
        costs = stage_costs(model, self._job.layout.cluster)
        works = [
            SCHEDULES[model.schedule](Place(stage, model.pp, model.micro_batches, model.chunks))
            for stage in range(model.pp)
        ]
        workers: list[Worker] = []
        for stage in range(model.pp):
            first_ranks = [(stage * model.dp + d) * model.tp for d in range(model.dp)]
            numbers = [log.worker(model.name, first, model.tp) for first in first_ranks]
            strategies = self._strategies(stage, numbers, costs[stage])
            nominal_ns = _nominal_ns(costs[stage], gradient_kind(works[stage]))
            workers += [
                Worker(
                    self._job, stage, d, numbers[d], first_ranks[d], costs[stage],
                    strategies[d], nominal_ns,
                )
                for d in range(model.dp)
            ]  # fmt: skip
        self._connect()
        for worker in workers:
            worker.agenda = self._agenda(worker, works[worker.stage], workers)
        return workers

    def _strategies(
        self, stage: int, numbers: Sequence[int], cost: StageCost
    ) -> list[DataParallel]:
        """How each replica of ``stage`` keeps its parameters in step with the others."""
        model = self._model
        units = [chunk.units for chunk in cost.chunks]
        chunks = tuple(chunk.parameters for chunk in cost.chunks)
        by_unit = tuple(tuple(sum(unit.parameters) for unit in c.units) for c in cost.chunks)
        seats = self._seats(stage, numbers)
        families = [[Family(seat, chunks, by_unit)] for seat in seats] or [[]] * model.dp
        return [STRATEGIES[model.zero_stage](model, own, units) for own in families]

    def _seats(self, stage: int, numbers: Sequence[int]) -> Sequence[Seat | HybridSeat]:
        """A seat for each replica; none where there is but one."""
        model = self._model
        everyone = range(model.dp)
        if model.dp == 1:
            return []
        shards = model.hybrid_shards
        if shards is None or shards == model.dp:
            return self._group(stage, everyone, numbers)
        seats: list[HybridSeat] = []
        insides = {
            first: self._group(stage, range(first, first + shards), numbers)
            for first in range(0, model.dp, shards)
        }
        outsides = {
            offset: self._group(stage, range(offset, model.dp, shards), numbers, set_apart=1)
            for offset in range(shards)
        }
        for replica in everyone:
            turn, offset = divmod(replica, shards)
            inside, outside = insides[turn * shards][offset], outsides[offset][turn]
            seats.append(HybridSeat(self._job.env, inside, outside, shards))
        return seats

    def _group(
        self, stage: int, replicas: Sequence[int], numbers: Sequence[int], set_apart: int = 0
    ) -> list[Seat]:
        """Seats of ``replicas`` in a group of their own, with connections of its own."""
        model, job = self._model, self._job
        build = ALGORITHMS["ring" if model.zero_stage else model.all_reduce]
        parts = [
            part
            for t in range(model.tp)
            for part in build(
                Group(
                    job.gpus[stage, replicas, t].tolist(),
                    Line(model.name, "dp", t + set_apart * model.tp),
                ),
                job.network,
            )
        ]
        stream = CommStream(job.env, parts, [numbers[r] for r in replicas], job.log)
        return [Seat(stream, member) for member in range(len(replicas))]

    def _connect(self) -> None:
        """Lay the ways between neighbouring stages, and round from the last to the first."""
        model = self._model
        joints = [(stage, stage + 1) for stage in range(model.pp - 1)]
        if model.chunks > 1:
            joints.append((model.pp - 1, 0))
        for here, there in joints:
            for replica in range(model.dp):
                for a, b in ((here, there), (there, here)):
                    if (a, b, replica) not in self._ways:
                        self._ways[a, b, replica] = self._way(a, b, replica)

    def _way(self, src_stage: int, dst_stage: int, replica: int) -> Way:
        """One flow a rank from each GPU to its counterpart, over NVLink or the network."""
        job = self._job
        src, dst = job.gpus[src_stage, replica].tolist(), job.gpus[dst_stage, replica].tolist()
        hops = [
            job.network.hop(a, b, line)
            for t, (a, b) in enumerate(zip(src, dst, strict=True))
            for line in job.network.lines(Line(self._model.name, "pp", t))
        ]
        bundle = job.fabric.templates.add_bundle([hop.template for hop in hops])
        return Way(bundle, round(max(hop.latency_ns for hop in hops)))

    def _agenda(self, worker: Worker, works: list[Work], workers: list[Worker]) -> list[Item]:
        programs = _programs(worker.replicas, works)
        chunks = self._model.chunks
        return [
            Item(
                work,
                work.kind * chunks + work.chunk,
                self._waits(worker.stage, work),
                programs[i],
                self._peer(worker, work, workers),
            )
            for i, work in enumerate(works)
        ]

    def _waits(self, stage: int, work: Work) -> bool:
        part = work.chunk * self._model.pp + stage
        ends = {FORWARD: 0, BACKWARD: self._model.parts - 1, WEIGHTS: part}
        return part != ends[work.kind]

    def _peer(self, worker: Worker, work: Work, workers: list[Worker]) -> Peer | None:
        """Who gets the result of ``work``: the part of the model behind it or before it."""
        model = self._model
        way_on = {FORWARD: 1, BACKWARD: -1, WEIGHTS: model.parts}[work.kind]
        part = work.chunk * model.pp + worker.stage + way_on
        if not 0 <= part < model.parts:
            return None
        chunk, stage = divmod(part, model.pp)
        to = workers[stage * model.dp + worker.replica]
        return Peer(to, self._ways[worker.stage, stage, worker.replica], chunk)


def _nominal_ns(cost: StageCost, gradients: int) -> NDArray[np.float64]:
    """Duration of every kind of pass through every chunk, shape (kinds x chunks, 1)."""
    kinds = [
        [chunk.forward_ns for chunk in cost.chunks],
        [chunk.backward_ns for chunk in cost.chunks],
    ]
    if gradients == WEIGHTS:
        weights = [chunk.weights_ns for chunk in cost.chunks]
        inputs = [whole - part for whole, part in zip(kinds[BACKWARD], weights, strict=True)]
        kinds = [kinds[FORWARD], inputs, weights]
    return np.array(kinds).reshape(-1, 1)


def _programs(replicas: DataParallel, works: list[Work]) -> list[Program | None]:
    """What happens inside each of ``works``; None for nothing but computing."""
    gradients = gradient_kind(works)
    made: dict[Pass, Program | None] = {}
    first = {(work.kind, work.chunk): i for i, work in reversed(list(enumerate(works)))}
    last = {(work.kind, work.chunk): i for i, work in enumerate(works)}
    programs = []
    for i, (kind, _, chunk) in enumerate(works):
        of = Pass(
            forward=kind == FORWARD,
            parameters=kind != WEIGHTS,
            gradients=kind == gradients,
            chunk=chunk,
            first=first[kind, chunk] == i,
            last=last[kind, chunk] == i,
        )
        if of not in made:
            points = replicas.points(of)
            made[of] = woven(PLAIN, points) if points else None
        programs.append(made[of])
    return programs
