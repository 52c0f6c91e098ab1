"""A case: a scenario, and what only a real run needs to know.

All keys but ``lab`` are those of a scenario and mean the same, so the same file describes the
case's twin: the simulation of the same cluster, jobs, faults and background.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from prism_common.errors import Problem, UserError
from prism_sim.loading.job import Job
from prism_sim.loading.loader import validate
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Closed
from prism_sim.scenario.job import OnServers
from prism_sim.scenario.source import Source, read_source
from prism_sim.training.costs import stage_costs

CASES = Path(__file__).resolve().parent / "cases"
SIMULATED_FAULTS = ("slow_gpu", "slow_nic", "slow_link", "slow_switch")

Trainer = Literal["ddp", "fsdp", "one_f_one_b", "pipelining", "tensor", "mpi"]


class Pause(Closed):
    """One rank's process is stopped (SIGSTOP) for a while, once."""

    job: str = Field(description="The job.")
    rank: int = Field(ge=0, description="The rank that is stopped.")
    step: int = Field(ge=1, description="It is stopped when it begins this step.")
    pause_ms: float = Field(gt=0, le=20_000, description="Length of the pause [ms].")


class Pings(Closed):
    """Every server pings the server at its place below the next leaf."""

    every_s: float = Field(default=1.0, ge=0.01, description="Period [s].")


class LabConfig(Closed):
    """What only the lab needs to know of a case."""

    trainers: dict[str, Trainer] = Field(description="The trainer of each job, by its name.")
    mpi_all_reduce: Literal["ring", "recursive_doubling", "rabenseifner"] = "ring"
    """OpenMPI's algorithm of an all-reduce."""
    burst_bytes: int = Field(default=20_000, ge=2_000)
    """Bucket of the token buckets that shape the links."""
    pauses: tuple[Pause, ...] = Field(default=(), description="Ranks that are stopped for a while.")
    pings: Pings | None = Field(default=None, description="ICMP echo between servers.")
    limit_s: float = Field(default=240.0, gt=0, description="The run is ended after this time.")
    profile: bool = False
    """Record every rank of PyTorch with torch.profiler as well."""


@dataclass(frozen=True)
class LabCase:
    """A case that was read: its scenario, and its section ``lab``."""

    path: Path
    scenario: Scenario
    lab: LabConfig

    @property
    def name(self) -> str:
        return self.scenario.name

    @property
    def jobs(self) -> list[Job]:
        """The jobs, each described by a model."""
        return [job for _, job in self.scenario.modelled]


def find(name: str) -> Path:
    """Return the file of a case, named by its path or by its name in ``lab/cases``."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return path
    known = sorted(one.stem for one in CASES.glob("*.yaml"))
    if name not in known:
        listed = ", ".join(known)
        raise UserError(Problem(f"there is no case {name!r}", str(CASES), f"known: {listed}"))
    return CASES / f"{name}.yaml"


def read_case(path: Path) -> LabCase:
    """Read a case; every problem is reported at once."""
    source = read_source(path)
    source.values.setdefault("name", path.stem)
    lab = _lab(source.values.pop("lab", None), path)
    case = LabCase(path, validate(source).scenario, lab)
    problems = list(_problems(case))
    if problems:
        raise UserError([Problem(what, str(path), how) for what, how in problems])
    return case


def twin(path: Path, overrides: dict[str, Any] | None = None) -> Scenario:
    """Return the scenario that simulates a case.

    A pause becomes one slow step of its rank, and pings an effect of the collector.
    """
    case = read_case(path)
    source = read_source(path)
    source.values.setdefault("name", path.stem)
    source.values.pop("lab")
    faults = [*source.values.get("faults", ()), *(_as_slow_gpu(case, p) for p in case.lab.pauses)]
    source.values["faults"] = faults
    if case.lab.pings is not None:
        ahead = case.scenario.cluster.servers_per_leaf
        pings = {"kind": "pings", "every_s": case.lab.pings.every_s, "ahead": ahead}
        collector = source.values.setdefault("collector", {})
        collector["effects"] = [*collector.get("effects", ()), pings]
    return _validated(source, overrides or {})


def _validated(source: Source, overrides: dict[str, Any]) -> Scenario:
    source = copy.deepcopy(source)
    source.override_all(overrides)
    return validate(source).scenario


def _as_slow_gpu(case: LabCase, pause: Pause) -> dict[str, Any]:
    job = next(job for job in case.jobs if job.name == pause.job)
    stage = pause.rank // (job.members * job.tp)
    cost = stage_costs(job, case.scenario.cluster)[stage]
    work_ms = job.micro_batches * (cost.forward_ns + cost.backward_ns) / 1e6
    factor = work_ms / (work_ms + pause.pause_ms)
    window = {"from_step": pause.step, "to_step": pause.step + 1}
    return {"kind": "slow_gpu", "job": pause.job, "rank": pause.rank, "factor": factor, **window}


def _lab(values: Any, path: Path) -> LabConfig:
    if values is None:
        raise UserError(Problem("the section `lab` is missing", str(path), "see lab/README.md"))
    try:
        return LabConfig.model_validate(values)
    except ValidationError as error:
        found = [
            Problem(f"lab.{'.'.join(map(str, detail['loc']))}: {detail['msg']}", str(path))
            for detail in error.errors()
        ]
        raise UserError(found) from None


def _problems(case: LabCase) -> Iterator[tuple[str, str]]:
    cluster, names = case.scenario.cluster, [job.name for job in case.jobs]
    if cluster.gpus_per_server != 1 or cluster.nics_per_server != 1:
        yield "a server of the lab has one rank and one NIC", "set both to 1"
    if cluster.fabric.kind != "tor" or cluster.fabric.pod_leaves is not None:
        yield "the lab builds leaves and spines", "use fabric kind tor, two tiers"
    for name in sorted(set(names) ^ set(case.lab.trainers)):
        yield f"job {name!r} and lab.trainers do not match", "name a trainer for each job"
    for job in case.jobs:
        if not isinstance(job.placement, OnServers):
            yield f"job {job.name}: placement must list servers", "write {servers: [...]}"
    for fault in case.scenario.faults:
        if fault.kind not in SIMULATED_FAULTS or not fault.in_steps:
            how = f"use {', '.join(SIMULATED_FAULTS)}, with steps"
            yield f"the lab cannot make the fault {fault.kind}", how
