"""The plan of a job for its trainers, as JSON: layout, sizes, durations, and its slow ranks.

Durations and sizes come from the same functions that the simulator takes them from.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.case import LabCase
from prism_sim.faults.computing import SlowGpu
from prism_sim.loading.job import Job
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import OnServers
from prism_sim.training.costs import pipeline_message_bytes, stage_costs

FIRST_PORT = 29500
FLOAT_BYTES = 4


@dataclass(frozen=True)
class StagePlan:
    """One pipeline stage: the length of a pass, and the model's units in forward order.

    ``shares`` is what each unit takes of a pass; ``parameters`` are the sizes of its tensors, in
    the order in which the backward pass finishes their gradients.
    """

    forward_ns: float
    backward_ns: float
    optimizer_ns: float
    shares: list[float]
    parameters: list[list[int]]


@dataclass(frozen=True)
class Slow:
    """One rank computes at ``factor`` of its speed, from one step to another."""

    rank: int
    factor: float
    from_step: int
    to_step: int


@dataclass(frozen=True)
class JobPlan:
    """One job as its trainer sees it; ranks count stage by stage, then member by member."""

    job: str
    trainer: str
    steps: int
    micro_batches: int
    pp: int
    members: int
    tp: int
    servers: list[str]
    addresses: list[str]
    stages: list[StagePlan]
    compute_jitter: float
    overhead_ms: float
    overhead_jitter: float
    tokens: int
    hidden: int
    message_floats: int
    bucket_floats: int | None
    seed: int
    slow: list[Slow]
    port: int
    reports: str
    room: str
    profile: bool = False

    @property
    def ranks(self) -> int:
        return self.pp * self.members * self.tp

    def place(self, rank: int) -> tuple[int, int, int]:
        """Return stage, member and tensor-parallel index of a rank."""
        member, tensor = divmod(rank, self.tp)
        return (*divmod(member, self.members), tensor)

    def rank(self, stage: int, member: int, tensor: int = 0) -> int:
        return (stage * self.members + member) * self.tp + tensor

    @staticmethod
    def read(path: Path) -> JobPlan:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["stages"] = [StagePlan(**stage) for stage in values["stages"]]
        values["slow"] = [Slow(**slow) for slow in values["slow"]]
        return JobPlan(**values)

    def write(self) -> Path:
        path = Path(self.room) / f"plan-{self.job}.json"
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path


def plans(case: LabCase, room: Path, reports: Path) -> list[JobPlan]:
    """Return the plan of every job of a case."""
    return [_plan(case, job, number, room, reports) for number, job in enumerate(case.jobs)]


def _plan(case: LabCase, job: Job, number: int, room: Path, reports: Path) -> JobPlan:
    assert isinstance(job.placement, OnServers)
    servers = list(job.placement.servers[: job.ranks])
    cluster = case.scenario.cluster
    return JobPlan(
        job=job.name,
        trainer=case.lab.trainers[job.name],
        steps=job.steps,
        micro_batches=job.micro_batches,
        pp=job.pp,
        members=job.members,
        tp=job.tp,
        servers=servers,
        addresses=[addresses(cluster)[name] for name in servers],
        stages=[_stage(job, cluster, stage) for stage in range(job.pp)],
        compute_jitter=job.compute_jitter,
        overhead_ms=job.step_overhead_ms,
        overhead_jitter=job.step_overhead_jitter,
        tokens=job.local_tokens,
        hidden=job.model.hidden,
        message_floats=pipeline_message_bytes(job) // FLOAT_BYTES,
        bucket_floats=job.bucket_limit_params,
        seed=case.scenario.seed,
        slow=_slow(case, job),
        port=FIRST_PORT + 100 * number,
        reports=str(reports),
        room=str(room),
        profile=case.lab.profile,
    )


def addresses(cluster: Cluster) -> dict[str, str]:
    """Return the address of each server."""
    from prism_sim.cluster.topology import topology_of

    ends: list[dict[str, Any]] = topology_of(cluster).to_json()["endpoints"]
    return {end["server"]: end["address"] for end in ends}


def _stage(job: Job, cluster: Cluster, stage: int) -> StagePlan:
    cost = stage_costs(job, cluster)[stage]
    units = [unit for chunk in cost.chunks for unit in chunk.units]
    total = sum(unit.weight for unit in units) or 1
    return StagePlan(
        forward_ns=cost.forward_ns,
        backward_ns=cost.backward_ns,
        optimizer_ns=cost.optimizer_ns,
        shares=[unit.weight / total for unit in units],
        parameters=[list(unit.parameters) for unit in units],
    )


def _slow(case: LabCase, job: Job) -> list[Slow]:
    return [
        Slow(fault.rank, fault.factor, fault.from_step or 0, fault.to_step or job.steps)
        for fault in case.scenario.faults
        if isinstance(fault, SlowGpu) and fault.job == job.name
    ]
