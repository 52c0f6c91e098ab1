"""How the workers of a job are made and reach each other.

For every stage there are the groups that its replicas communicate in; for every pair of
stages that hand messages on, a way there and a way back; and for every worker the list of
what it does in a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llmprism.kinds import PP
from prism_sim.cluster.network import Connection
from prism_sim.training.costs import StageCost, stage_costs
from prism_sim.training.data_parallel import STRATEGIES, DataParallel, Family, Pass
from prism_sim.training.exchanges import Exchange, pass_program
from prism_sim.training.groups import Groups
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
from prism_sim.training.worker import Item, Measured, Peer, Way, Worker

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
        members = range(model.members)
        first_ranks = [
            [(s * model.members + m) * model.tp for m in members] for s in range(model.pp)
        ]
        numbers = [[log.worker(model.name, r, model.tp) for r in own] for own in first_ranks]
        groups = Groups(self._job, numbers)
        workers: list[Worker] = []
        exchanges: list[list[Exchange]] = []
        for stage, cost in enumerate(costs):
            strategies = self._strategies(groups, stage, cost)
            nominal_ns = _nominal_ns(cost, gradient_kind(works[stage]))
            for m in members:
                measured = self._measured(stage, m)
                own_ns = nominal_ns
                if measured is not None:
                    own_ns = measured.passes_ns.mean((0, 2))[:, None]
                worker = Worker(
                    self._job, stage, m, numbers[stage][m], first_ranks[stage][m], cost,
                    strategies[m], own_ns, measured=measured,
                )  # fmt: skip
                workers.append(worker)
            exchanges += groups.exchanges(stage)
        self._connect()
        closings = groups.closings()
        for worker, own in zip(workers, exchanges, strict=True):
            worker.agenda = self._agenda(worker, works[worker.stage], workers, own)
            worker.closing = closings.get((worker.stage, worker.member), [])
        return workers

    def _measured(self, stage: int, member: int) -> Measured | None:
        """Measured durations of a worker; ranks that share a replica's sequences share its."""
        timings = self._model.timings
        if timings is None:
            return None
        replica = member // self._model.cp
        passes = [step[stage][replica] for step in timings.passes_ns]
        updates = [step[stage][replica] for step in timings.optimizer_ns]
        return Measured(np.array(passes), np.array(updates))

    def _strategies(self, groups: Groups, stage: int, cost: StageCost) -> list[DataParallel]:
        """How each member of ``stage`` keeps its parameters in step with the others."""
        model = self._model
        units = [chunk.units for chunk in cost.chunks]
        dense = (
            tuple(chunk.parameters for chunk in cost.chunks),
            tuple(tuple(sum(unit.parameters) for unit in c.units) for c in cost.chunks),
        )
        experts = (
            tuple(chunk.expert_parameters for chunk in cost.chunks),
            tuple(tuple(sum(unit.experts) for unit in c.units) for c in cost.chunks),
        )
        families: list[list[Family]] = [[] for _ in range(model.members)]
        seats = groups.gradients(stage)
        expert_seats = groups.expert_gradients(stage) if any(map(any, experts[0])) else []
        for kept, seated in ((dense, seats), (experts, expert_seats)):
            for own, seat in zip(families, seated, strict=False):
                own.append(Family(seat, *kept))
        return [STRATEGIES[model.zero_stage](model, own, units) for own in families]

    def _connect(self) -> None:
        """Lay the ways between neighbouring stages, and round from the last to the first."""
        model = self._model
        joints = [(stage, stage + 1) for stage in range(model.pp - 1)]
        if model.chunks > 1:
            joints.append((model.pp - 1, 0))
        for here, there in joints:
            for member in range(model.members):
                for a, b in ((here, there), (there, here)):
                    if (a, b, member) not in self._ways:
                        self._ways[a, b, member] = self._way(a, b, member)

    def _way(self, src_stage: int, dst_stage: int, member: int) -> Way:
        """One flow a rank from each GPU to its counterpart, over NVLink or the network."""
        job = self._job
        src, dst = job.gpus[src_stage, member].tolist(), job.gpus[dst_stage, member].tolist()
        hops = [
            job.network.hop(a, b, connection)
            for t, (a, b) in enumerate(zip(src, dst, strict=True))
            for connection in job.network.queue_pairs(Connection(self._model.name, PP, t))
        ]
        bundle = job.fabric.templates.add_bundle([hop.template for hop in hops])
        routes = tuple(hop.route for hop in hops)
        return Way(bundle, round(max(hop.latency_ns for hop in hops)), routes)

    def _agenda(
        self,
        worker: Worker,
        works: list[Work],
        workers: list[Worker],
        exchanges: list[Exchange],
    ) -> list[Item]:
        programs = _programs(worker, works, exchanges)
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
        to = workers[stage * model.members + worker.member]
        return Peer(to, self._ways[worker.stage, stage, worker.member], chunk)


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


def _programs(worker: Worker, works: list[Work], exchanges: list[Exchange]) -> list[Program | None]:
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
            made[of] = _program(worker, of, exchanges)
        programs.append(made[of])
    return programs


def _program(worker: Worker, of: Pass, exchanges: list[Exchange]) -> Program | None:
    """What happens inside one kind of pass: exchanges of its layers, and of replicas."""
    program = None
    if of.parameters and exchanges:
        program = pass_program(worker.cost.chunks[of.chunk].units, exchanges, of.forward)
    points = worker.replicas.points(of)
    return woven(program or PLAIN, points) if points else program
