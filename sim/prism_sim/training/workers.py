"""Builds and connects the workers of a job.

Every stage has the communication groups of its replicas; every pair of stages that exchange
messages has a path in each direction; every worker has the plan of its step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prism_common.kinds import PP
from prism_sim.cluster.network import Connection
from prism_sim.training.compute import ComputeSpeed
from prism_sim.training.context import JobContext
from prism_sim.training.costs import StageCost, pipeline_message_bytes, sharded_costs
from prism_sim.training.data_parallel import DataParallel, ParameterSet, Pass
from prism_sim.training.exchanges import Exchange, ExchangeBase, pass_program
from prism_sim.training.groups import JobGroups
from prism_sim.training.habits import Habit
from prism_sim.training.messages import MessagePath
from prism_sim.training.program import PLAIN, Program, woven
from prism_sim.training.schedules import BACKWARD, FORWARD, WEIGHTS, Place, Work, gradient_kind
from prism_sim.training.worker import Measured, Peer, PlannedPass, Worker


class Assembly:
    """Builds the workers of a job and connects them.

    Parameters
    ----------
    context : shared by all workers.
    exchanges : exchanges of parallel ranks inside a pass.
    habits : activities besides steps.
    """

    def __init__(
        self, context: JobContext, exchanges: Sequence[ExchangeBase], habits: Sequence[Habit]
    ) -> None:
        self._context = context
        self._config = context.config
        self._kinds = exchanges
        self._habits = habits
        self._paths: dict[tuple[int, int, int], MessagePath] = {}

    def workers(self) -> list[Worker]:
        """All workers, stage by stage, each with its plan."""
        config, context = self._config, self._context
        places = [
            Place(stage, config.pp, config.micro_batches, config.chunks)
            for stage in range(config.pp)
        ]
        works = [context.schedule.work(place) for place in places]
        shards = context.strategy.optimizer_shards(config)
        costs = sharded_costs(config, context.layout.cluster, shards)
        numbers = self._numbers()
        groups = JobGroups(context, numbers)
        made: list[Worker] = []
        exchanges: list[list[Exchange]] = []
        for stage, cost in enumerate(costs):
            made += self._of_stage(stage, cost, groups, gradient_kind(works[stage]))
            exchanges += self._exchanges(groups, stage)
        self._connect()
        final = groups.final_collectives()
        for worker, own in zip(made, exchanges, strict=True):
            worker.plan = self._plan(worker, works[worker.stage], made, own)
            worker.final = final.get((worker.stage, worker.member), [])
        return made

    def _numbers(self) -> list[list[int]]:
        """Number in the log of every worker, by stage and member."""
        config, log = self._config, self._context.log
        return [
            [
                log.worker(config.name, (stage * config.members + member) * config.tp, config.tp)
                for member in range(config.members)
            ]
            for stage in range(config.pp)
        ]

    def _of_stage(
        self, stage: int, cost: StageCost, groups: JobGroups, gradients: int
    ) -> list[Worker]:
        """The workers of one stage; gradients are complete after passes of kind ``gradients``."""
        config = self._config
        strategies = self._strategies(groups, stage, cost)
        nominal_ns = _nominal_ns(cost, gradients)
        connections = self._context.layout.cluster.queue_pairs
        flow_bytes = -(-pipeline_message_bytes(config) // connections)
        made = []
        for member, replicas in enumerate(strategies):
            measured = self._measured(stage, member)
            own_ns = nominal_ns
            if measured is not None:
                own_ns = measured.passes_ns.mean((0, 2))[:, None]
            first_rank = (stage * config.members + member) * config.tp
            made.append(
                Worker(
                    self._context, stage, member, groups.numbers[stage][member], first_rank, cost,
                    replicas, own_ns, flow_bytes, self._habits, measured=measured,
                    slowdowns=self._speed(stage, member, measured),
                )
            )  # fmt: skip
        return made

    def _speed(self, stage: int, member: int, measured: Measured | None) -> ComputeSpeed:
        """The speed of a worker's GPUs; measured durations contain it."""
        context = self._context
        spread = context.layout.cluster.gpu_spread if measured is None else 0.0
        return ComputeSpeed.of_gpus(context.gpus[stage, member].tolist(), spread, context.draws)

    def _exchanges(self, groups: JobGroups, stage: int) -> list[list[Exchange]]:
        """The exchanges of each member of ``stage`` inside its passes."""
        made: list[list[Exchange]] = [[] for _ in range(self._config.members)]
        for kind in self._kinds:
            for member, exchange in kind.open(groups, stage).items():
                made[member].append(exchange)
        return made

    def _measured(self, stage: int, member: int) -> Measured | None:
        """Measured durations of a worker; the ranks of one replica share the same ones."""
        timings = self._config.timings
        if timings is None:
            return None
        replica = member // self._config.cp
        passes = [step[stage][replica] for step in timings.passes_ns]
        updates = [step[stage][replica] for step in timings.optimizer_ns]
        return Measured(np.array(passes), np.array(updates))

    def _strategies(self, groups: JobGroups, stage: int, cost: StageCost) -> list[DataParallel]:
        """The data-parallel strategy of each member of ``stage``."""
        config, strategy = self._config, self._context.strategy
        units = [chunk.units for chunk in cost.chunks]
        dense = (
            tuple(chunk.parameters for chunk in cost.chunks),
            tuple(tuple(sum(unit.parameters) for unit in c.units) for c in cost.chunks),
        )
        experts = (
            tuple(chunk.expert_parameters for chunk in cost.chunks),
            tuple(tuple(sum(unit.experts) for unit in c.units) for c in cost.chunks),
        )
        sets: list[list[ParameterSet]] = [[] for _ in range(config.members)]
        of_all = groups.gradients(stage)
        of_experts = groups.expert_gradients(stage) if any(map(any, experts[0])) else []
        for sizes, opened in ((dense, of_all), (experts, of_experts)):
            for own, communicator in zip(sets, opened, strict=False):
                own.append(ParameterSet(communicator, *sizes))
        return [strategy.attach(config, own, units) for own in sets]

    def _connect(self) -> None:
        """Create paths between neighbouring stages, and from the last stage to the first."""
        config = self._config
        joints = [(stage, stage + 1) for stage in range(config.pp - 1)]
        if config.chunks > 1:
            joints.append((config.pp - 1, 0))
        for here, there in joints:
            for member in range(config.members):
                for a, b in ((here, there), (there, here)):
                    if (a, b, member) not in self._paths:
                        self._paths[a, b, member] = self._path(a, b, member)

    def _path(self, src_stage: int, dst_stage: int, member: int) -> MessagePath:
        """One flow per rank from each GPU to its counterpart, over NVLink or the network."""
        network, gpus = self._context.network, self._context.gpus
        src, dst = gpus[src_stage, member].tolist(), gpus[dst_stage, member].tolist()
        hops = [
            network.hop(a, b, connection)
            for t, (a, b) in enumerate(zip(src, dst, strict=True))
            for connection in network.queue_pairs(Connection(self._config.name, PP, t))
        ]
        number, latency_ns = network.bundle(hops)
        return MessagePath(number, latency_ns, tuple(hop.route for hop in hops))

    def _plan(
        self, worker: Worker, works: list[Work], workers: list[Worker], exchanges: list[Exchange]
    ) -> list[PlannedPass]:
        programs = _programs(worker, works, exchanges)
        chunks = self._config.chunks
        return [
            PlannedPass(
                work,
                work.kind * chunks + work.chunk,
                self._waits(worker.stage, work),
                programs[i],
                self._peer(worker, work, workers),
            )
            for i, work in enumerate(works)
        ]

    def _waits(self, stage: int, work: Work) -> bool:
        part = work.chunk * self._config.pp + stage
        ends = {FORWARD: 0, BACKWARD: self._config.parts - 1, WEIGHTS: part}
        return part != ends[work.kind]

    def _peer(self, worker: Worker, work: Work, workers: list[Worker]) -> Peer | None:
        """The worker that needs the result of ``work``; None if there is none."""
        config = self._config
        offset = {FORWARD: 1, BACKWARD: -1, WEIGHTS: config.parts}[work.kind]
        part = work.chunk * config.pp + worker.stage + offset
        if not 0 <= part < config.parts:
            return None
        chunk, stage = divmod(part, config.pp)
        to = workers[stage * config.members + worker.member]
        return Peer(to, self._paths[worker.stage, stage, worker.member], chunk)


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
    """The program of each of ``works``; None if it only computes."""
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
    """The program of one kind of pass: exchanges of its layers, and of replicas."""
    program = None
    if of.parameters and exchanges:
        program = pass_program(worker.cost.chunks[of.chunk].units, exchanges, of.forward)
    points = worker.replicas.points(of)
    return woven(program or PLAIN, points) if points else program
