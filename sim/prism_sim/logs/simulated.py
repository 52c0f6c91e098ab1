"""Jobs of a simulation, as their logs need them: each attempt of a job is a job of the scheduler.

Times of iterations, checkpoints and evaluations are those of the simulation. A fault that stopped
an attempt, or slowed it, gets a failure kind that may show itself so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.corpus import Incident, Logged
from prism_sim.logs.drawn import FRAMEWORKS, LAYOUTS, clocks, tool_versions
from prism_sim.logs.failures import FAILURES, FailureKind
from prism_sim.logs.job import Ints, LogJob, Pause, Times
from prism_sim.logs.population import Choice
from prism_sim.logs.scene import Scene
from prism_sim.logs.shares import kinds_of, pick, weights
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.tools import Tools

_LAUNCH_NS = 60 * SECOND_NS
_CHOICE: dict[str, Choice] = {"open": "open", "exam": "held out", "all": "any"}
CHECKPOINT, EVALUATION = "checkpoint", "eval_fwd"
"""Kinds of spans in the truth that are pauses."""


class FlowFault(NamedTuple):
    """A fault of the simulation: its row, kind, the job and rank that it concerns, its begin."""

    row: int
    kind: str
    job: str
    rank: int
    start_ns: int


class Attempt(NamedTuple):
    """One attempt of a job.

    Attributes
    ----------
    first_step, lost : its first step; earlier steps whose work was lost.
    failed_ns : when it failed; None if it did not.
    noticed_ns : how long it took until this was noticed.
    fault : the fault that stopped it, if the scenario lists one as a fault.
    rank : the rank that failed.
    """

    first_step: int
    lost: int
    failed_ns: int | None = None
    noticed_ns: int = 0
    fault: FlowFault | None = None
    rank: int = 0


@dataclass(frozen=True)
class SimulatedJob:
    """A job of the simulation [true ns since 1970].

    Attributes
    ----------
    steps : number that the scenario asks for.
    sizes : dp, pp and tp.
    ranks, table, pauses : its rows of the truth's ``ranks`` and ``steps``, and its spans that are
        pauses.
    slowed : faults that slow it.
    """

    name: str
    steps: int
    start_ns: int
    sizes: tuple[int, int, int]
    ranks: pd.DataFrame
    table: pd.DataFrame
    pauses: pd.DataFrame
    attempts: Sequence[Attempt]
    slowed: Sequence[FlowFault]


def simulated_jobs(
    jobs: Sequence[SimulatedJob], options: Logs, gpus: int, seed: int
) -> Iterator[Logged]:
    """All attempts of all jobs; ``gpus`` is the number of a server."""
    draws = Draws(seed)
    for number, job in enumerate(jobs):
        free_ns = job.start_ns - 2 * _LAUNCH_NS
        for index in range(len(job.attempts)):
            logged = _attempt(job, index, options, draws, gpus, (900_000 + number * 1000, free_ns))
            yield logged
            free_ns = max(
                [logged.job.times.last_ns]
                + [incident.scene.when_ns for incident in logged.incidents]
            )


def _attempt(
    job: SimulatedJob, index: int, options: Logs, draws: Draws, gpus: int, numbers: tuple[int, int]
) -> Logged:
    """One attempt; ``numbers`` are the job's first number, and when its nodes were free."""
    attempt, (job_id, free_ns) = job.attempts[index], numbers
    name, user = f"{job.name}-{index}", f"u{draws.number('user', job.name) % 90:02d}"
    framework = FRAMEWORKS[draws.number("framework", job.name) % len(FRAMEWORKS)]
    nodes, homes = _homes(job.ranks)
    dp, pp, tp = job.sizes
    made = LogJob(
        name=name,
        title=job.name,
        user=user,
        job_id=job_id + index,
        nodes=nodes,
        gpus=gpus,
        homes=homes,
        framework=framework,
        versions=tool_versions(draws, user, framework, _CHOICE[options.population]),
        layout=options.layout or LAYOUTS[draws.number("layout", job.name) % len(LAYOUTS)],
        nccl_debug=options.nccl_debug,
        calls=options.calls,
        dp=dp,
        pp=pp,
        tp=tp,
        times=_times(job, index, free_ns),
        timeout_s=attempt.noticed_ns / SECOND_NS if attempt.noticed_ns else 600.0,
        kills=False,
        rdma=True,
        clocks_ns=clocks(draws, name, len(nodes), options),
        draws=draws,
    )
    incidents = [*_slowed(job, made, options), *_stopped(attempt, made, options)]
    return Logged(made, tuple(incidents), job.name, index)


def _homes(ranks: pd.DataFrame) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """The nodes of a job, and node and local rank of every rank."""
    nodes = tuple(dict.fromkeys(ranks.sort_values("rank")["server"]))
    numbers = ranks["server"].map({name: number for number, name in enumerate(nodes)})
    placed = ranks.assign(number=numbers).sort_values(["number", "gpu", "rank"])
    placed = placed.assign(local=placed.groupby("number").cumcount()).sort_values("rank")
    pairs = zip(placed["number"].tolist(), placed["local"].tolist(), strict=True)
    return nodes, tuple(pairs)


def _times(job: SimulatedJob, index: int, free_ns: int) -> Times:
    """When an attempt did what; it was launched when its nodes were free."""
    attempt = job.attempts[index]
    stop = job.attempts[index + 1].first_step if index + 1 < len(job.attempts) else None
    own = job.table[job.table["step"] >= attempt.first_step]
    own = own if stop is None else own[own["step"] < stop]
    steps = own.groupby("step").agg(
        start=("start_ns", "min"), end=("end_ns", "max"), ranks=("rank", "size")
    )
    done = steps[steps["ranks"] == len(job.ranks)]
    starts, ends = done["start"].to_numpy(np.int64), done["end"].to_numpy(np.int64)
    rest = steps[steps["ranks"] < len(job.ranks)]["start"].tolist()
    training_ns = int(starts[0]) if len(starts) else min([*rest, attempt.failed_ns or free_ns])
    launch_ns = min(_LAUNCH_NS, (training_ns - free_ns) * 4 // 5)
    first = attempt.first_step - attempt.lost + 1
    numbers = done.index.to_numpy(np.int64) - attempt.lost + 1
    following = int(ends[-1]) if len(ends) else training_ns
    evaluations = _pauses(job.pauses, EVALUATION, attempt, numbers)
    saves = _pauses(job.pauses, CHECKPOINT, attempt, numbers)
    return Times(
        submit_ns=training_ns - launch_ns - SECOND_NS,
        begin_ns=training_ns - launch_ns,
        training_ns=training_ns,
        first=first,
        total=job.steps,
        starts_ns=np.append(starts, min(rest, default=following)),
        ends_ns=ends,
        saves=saves,
        evaluations=evaluations,
    )


def _pauses(pauses: pd.DataFrame, kind: str, attempt: Attempt, numbers: Ints) -> tuple[Pause, ...]:
    own = pauses[pauses["kind"] == kind]
    spans = own.groupby("step").agg(start=("start_ns", "min"), end=("end_ns", "max"))
    known = set(numbers.tolist())
    return tuple(
        Pause(int(step) - attempt.lost + 1, int(start_ns), int(end_ns))
        for step, start_ns, end_ns in spans.itertuples()
        if step >= attempt.first_step and int(step) - attempt.lost + 1 in known
    )


def _stopped(attempt: Attempt, job: LogJob, options: Logs) -> Iterator[Incident]:
    """The failure that ended the attempt."""
    if attempt.failed_ns is None:
        return
    fault = attempt.fault
    kind = _kind(fault.kind if fault else "crash", job, options)
    if kind is None:
        return
    times = job.times
    scene = Scene(
        job=job,
        tools=Tools.of(job),
        rng=job.generator("scene"),
        when_ns=attempt.failed_ns,
        iteration=times.first + len(times.ends_ns),
        phase=_phase(times, attempt.failed_ns),
        rank=attempt.rank,
    )
    kind().unfold(scene)
    yield Incident(scene, kind, flow_fault=fault.row if fault else None)


def _phase(times: Times, when_ns: int) -> str:
    for name, pauses in (("checkpoint", times.saves), ("evaluation", times.evaluations)):
        if any(pause.start_ns <= when_ns < (pause.end_ns or when_ns) for pause in pauses):
            return name
    return "iteration"


def _slowed(simulated: SimulatedJob, job: LogJob, options: Logs) -> Iterator[Incident]:
    """Faults that slow the attempt, from the first iteration that they reach."""
    times = job.times
    for fault in simulated.slowed:
        row = int(np.searchsorted(times.ends_ns, fault.start_ns, side="right"))
        kind = _kind(fault.kind, job, options)
        if kind is None or fault.start_ns < times.begin_ns or row >= len(times.ends_ns):
            continue
        scene = Scene(
            job=job,
            tools=Tools.of(job),
            rng=job.generator("scene", fault.row),
            when_ns=fault.start_ns,
            iteration=times.first + row,
            phase="iteration",
            rank=fault.rank,
            slow=True,
        )
        kind().unfold(scene)
        scene.lines = [line for line in scene.lines if line.time_ns < times.last_ns]
        yield Incident(scene, kind, flow_fault=fault.row)


def _kind(fault: str, job: LogJob, options: Logs) -> type[FailureKind] | None:
    """A kind as which a fault may show itself: an allowed one, if there is one."""
    allowed = kinds_of(options)
    for kinds in (allowed, FAILURES):
        found = {name: kind for name, kind in kinds.items() if fault in kind.faults}
        if found:
            return found[pick(weights(found), float(job.generator("kind", fault).uniform()))]
    return None
