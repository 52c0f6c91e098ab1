"""Builds and connects the workers of a job.

Every stage has the communication groups of its replicas; every pair of stages that exchange
messages has a path in each direction; every worker has the plan of its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from prism_common.kinds import PP
from prism_sim.cluster.network import Connection
from prism_sim.training.compute import SpeedFactors
from prism_sim.training.context import JobContext
from prism_sim.training.costs import StageCost, pipeline_message_bytes, sharded_costs
from prism_sim.training.data_parallel import DataParallel, ParameterSet, Pass
from prism_sim.training.exchanges import Exchange, ExchangeBase, pass_program
from prism_sim.training.groups import JobGroups
from prism_sim.training.habits import Habit
from prism_sim.training.messages import AgreedMail, Link, MessagePath, QueuedMail
from prism_sim.training.plan import PlannedPass, Receiver, StagePlan, parts_of, pieces_of
from prism_sim.training.program import PLAIN, Program, beside, woven
from prism_sim.training.schedules import (
    BACKWARD,
    FORWARD,
    WEIGHTS,
    WHOLE,
    Place,
    Work,
    gradient_kinds,
)
from prism_sim.training.worker import Measured, Worker


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
        works = [context.schedule.work(self._place(stage)) for stage in range(config.pp)]
        shards = context.strategy.optimizer_shards(config) * config.copies
        costs = sharded_costs(config, context.layout.cluster, shards)
        numbers = self._numbers()
        groups = JobGroups(context, numbers)
        made: list[Worker] = []
        exchanges: list[list[Exchange]] = []
        for stage, cost in enumerate(costs):
            made += self._of_stage(stage, cost, groups, max(w.kind for w in works[stage]))
            exchanges += self._exchanges(groups, stage)
        plans = [self._plan(stage, works[stage]) for stage in range(config.pp)]
        self._connect(plans)
        final = groups.final_collectives()
        for worker, own in zip(made, exchanges, strict=True):
            self._plan_of(worker, plans[worker.stage], own)
            worker.final = final.get((worker.stage, worker.member), [])
        self._open_mail(made, plans)
        return made

    def _place(self, stage: int) -> Place:
        config = self._config
        return Place(stage, config.pp, config.micro_batches, config.chunks)

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
        self, stage: int, cost: StageCost, groups: JobGroups, last_kind: int
    ) -> list[Worker]:
        """The workers of one stage, whose passes have kinds up to ``last_kind``."""
        config = self._config
        strategies = self._strategies(groups, stage, cost)
        nominal_ns = _nominal_ns(cost, last_kind)
        connections = self._context.layout.cluster.connections
        flow_bytes = -(-pipeline_message_bytes(config) // connections)
        made = []
        for member, replicas in enumerate(strategies):
            measured = self._measured(stage, member)
            own_ns = nominal_ns
            if measured is not None:
                own_ns = measured.passes_ns.mean((0, 2))[:, None]
            first_rank = (stage * config.members + member) * config.tp
            number = groups.numbers[stage][member]
            mail, sequence = self._open(number, len(own_ns), flow_bytes)
            made.append(
                Worker(
                    self._context, stage, member, number, first_rank, cost, replicas, own_ns,
                    flow_bytes, self._habits, mail, sequence, measured=measured,
                    speed_factors=self._speed(stage, member, measured),
                )
            )  # fmt: skip
        return made

    def _open(self, number: int, rows: int, flow_bytes: int) -> tuple[QueuedMail | AgreedMail, int]:
        """The mail and the sequence of a worker, whose step has ``rows`` kinds of durations.

        There is a mailbox for every pass, and one for the evaluations of each chunk.
        """
        context, config = self._context, self._config
        tables, passes = context.fabric.tables, rows * config.micro_batches
        mailboxes = tables.add_mailboxes(passes + config.stage_chunks)
        sizes = [flow_bytes] * config.micro_batches
        sequence = tables.add_sequence(number, mailboxes, passes, sizes)
        if context.rendezvous is None:
            return QueuedMail(context.fabric, context.log, mailboxes), sequence
        return AgreedMail(context.fabric, context.log, context.rendezvous, number), sequence

    def _speed(self, stage: int, member: int, measured: Measured | None) -> SpeedFactors:
        """The speed of a worker's GPUs; measured durations contain it."""
        context = self._context
        spread = context.layout.cluster.gpu_spread if measured is None else 0.0
        return SpeedFactors.of_gpus(context.gpus[stage, member].tolist(), spread, context.draws)

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

    def _connect(self, plans: Sequence[StagePlan]) -> None:
        """Create paths between neighbouring stages, and between others that exchange messages.

        With several chunks, the last stage sends to the first.
        """
        config = self._config
        joints = [(stage, stage + 1) for stage in range(config.pp - 1)]
        if config.chunks > 1:
            joints.append((config.pp - 1, 0))
        joints += [(stage, to) for stage, plan in enumerate(plans) for to in plan.links]
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

    def _plan(self, stage: int, works: list[Work]) -> StagePlan:
        """The plan of ``stage``, and the stages at the ends of its links."""
        config, links = self._config, dict[int, int]()
        passes = _passes_of(works)
        kinds = {of: i for i, of in enumerate(dict.fromkeys(passes))}
        plan = []
        for work, of in zip(works, passes, strict=True):
            row = work.kind * config.stage_chunks + work.chunk
            duration = row * config.micro_batches + work.micro_batch
            mailbox = self._mailbox(stage, work)
            receiver = self._receiver(stage, work, links)
            plan.append(PlannedPass(work, duration, mailbox, kinds[of], receiver))
        pieces = self._context.fabric.tables.add_pieces(pieces_of(plan, self._context.log))
        return StagePlan(plan, pieces, [*kinds], [*links])

    def _plan_of(self, worker: Worker, plan: StagePlan, exchanges: list[Exchange]) -> None:
        """Give ``worker`` the plan of its stage, with programs of its own."""
        worker.plan, worker.pieces = plan.passes, plan.pieces
        worker.programs = [_program(worker, of, exchanges) for of in plan.kinds]
        plain = tuple(program is None for program in worker.programs)
        apart = self._context.rendezvous is not None
        if plain not in plan.parts:
            plan.parts[plain] = parts_of(plan.passes, plain, apart=apart)
        worker.parts = plan.parts[plain]

    def _mailbox(self, stage: int, work: Work) -> int:
        """The mailbox of the message that ``work`` of ``stage`` waits for; -1 if for none."""
        before = self._beyond(stage, work, {FORWARD: -1, BACKWARD: 1, WHOLE: 1})
        return -1 if before is None else self._mailbox_of(work, work.chunk)

    def _receiver(self, stage: int, work: Work, links: dict[int, int]) -> Receiver | None:
        """Who needs the result of ``work``; None if nobody does.

        ``links`` has the number of the link to each stage, and gets new ones.
        """
        after = self._beyond(stage, work, {FORWARD: 1, BACKWARD: -1, WHOLE: -1})
        if after is None:
            return None
        to, chunk = after
        return Receiver(links.setdefault(to, len(links)), self._mailbox_of(work, chunk))

    def _beyond(self, stage: int, work: Work, offsets: dict[int, int]) -> tuple[int, int] | None:
        """The other stage, and its chunk, that is next on the way of a micro-batch; None for none.

        ``offsets`` has the number of parts to go, by kind of pass.
        """
        config = self._config
        if work.kind not in offsets:
            return None
        part = config.part_of(stage, work.chunk) + offsets[work.kind]
        if not 0 <= part < config.parts:
            return None
        to, chunk = self._context.schedule.holder(part, work.micro_batch, self._place(stage))
        return None if to == stage else (to, chunk)

    def _mailbox_of(self, work: Work, chunk: int) -> int:
        """The mailbox for activations, or for gradients, of a micro-batch in a stage's chunk."""
        config = self._config
        direction = FORWARD if work.kind == FORWARD else BACKWARD
        row = direction * config.stage_chunks + chunk
        return row * config.micro_batches + work.micro_batch

    def _open_mail(self, workers: list[Worker], plans: Sequence[StagePlan]) -> None:
        """Connect the mail of each worker with the workers at the ends of its links."""
        members, tables = self._config.members, self._context.fabric.tables
        for worker in workers:
            ends = [
                (
                    workers[to * members + worker.member],
                    self._paths[worker.stage, to, worker.member],
                )
                for to in plans[worker.stage].links
            ]
            if isinstance(worker.mail, AgreedMail):
                worker.mail.links = [
                    Link(to.mail, to.number, path)
                    for to, path in ends
                    if isinstance(to.mail, AgreedMail)
                ]
            elif isinstance(worker.mail, QueuedMail):
                worker.mail.queues = [
                    tables.add_queue(
                        path.bundle, path.latency_ns, tables.mailboxes_of(to.sequence),
                        (worker.number, to.number), self._config.tp,
                    )
                    for to, path in ends
                ]  # fmt: skip
                tables.set_queues(worker.sequence, worker.mail.queues)


def _nominal_ns(cost: StageCost, last_kind: int) -> NDArray[np.float64]:
    """Duration of every kind of pass through every chunk, shape (kinds x chunks, 1)."""
    forward = [chunk.forward_ns for chunk in cost.chunks]
    whole = [chunk.backward_ns for chunk in cost.chunks]
    kinds = [forward, whole]
    if last_kind >= WEIGHTS:
        weights = [chunk.weights_ns for chunk in cost.chunks]
        inputs = [all_ - part for all_, part in zip(whole, weights, strict=True)]
        kinds = [forward, inputs, weights, whole][: last_kind + 1]
    return np.array(kinds).reshape(-1, 1)


def _passes_of(works: list[Work]) -> list[tuple[Pass, ...]]:
    """What the program of each of ``works`` depends on; two passes if they run beside each other"""
    gradients = gradient_kinds(works)

    def same(work: Work) -> tuple[object, int]:
        return ("gradients" if work.kind in gradients else work.kind, work.chunk)

    first = {same(work): i for i, work in reversed(list(enumerate(works)))}
    last = {same(work): i for i, work in enumerate(works)}
    passes = [
        Pass(
            forward=work.kind == FORWARD,
            parameters=work.kind != WEIGHTS,
            gradients=work.kind in gradients,
            chunk=work.chunk,
            first=first[same(work)] == i,
            last=last[same(work)] == i,
        )
        for i, work in enumerate(works)
    ]
    return [tuple(passes[i : i + 1 + work.beside]) for i, work in enumerate(works)]


def _program(worker: Worker, of: tuple[Pass, ...], exchanges: list[Exchange]) -> Program | None:
    """The program of a pass, or of two beside each other; None if there is only computation."""
    programs = [_program_of_one(worker, each, exchanges) for each in of]
    if len(of) == 1 or programs == [None, None]:
        return programs[0]
    forward, backward = (worker.cost.chunks[each.chunk] for each in of)
    forward_ns, backward_ns = round(forward.forward_ns), round(backward.backward_ns)
    share = Fraction(forward_ns, (forward_ns + backward_ns) or 1)
    return beside(programs[0] or PLAIN, programs[1] or PLAIN, share)


def _program_of_one(worker: Worker, of: Pass, exchanges: list[Exchange]) -> Program | None:
    """The program of one kind of pass: exchanges of its layers, and of replicas."""
    program = None
    if of.parameters and exchanges:
        program = pass_program(worker.cost.chunks[of.chunk].units, exchanges, of.forward)
    points = worker.replicas.points(of)
    return woven(program or PLAIN, points) if points else program
