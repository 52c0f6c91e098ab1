"""A drawn job: its size, tools and times, and the scene of its failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.job import Framework, Ints, Layout, LogJob, Pause, Times
from prism_sim.logs.population import Choice, Fate
from prism_sim.logs.scene import Ending, Scene
from prism_sim.logs.spread import job_is_cancelled
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.tools import Tools, versions
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.names import server_index, server_name

Floats = NDArray[np.float64]

FRAMEWORKS: tuple[Framework, ...] = ("megatron", "deepspeed")
LAYOUTS: tuple[Layout, ...] = ("job", "node", "rank")
_TITLES = ("pretrain-7b", "pretrain-13b", "sft-70b", "ablation-1b", "continue-30b", "moe-8x7b")
_TIMEOUTS_S = (600.0, 600.0, 1800.0)
_SLOWER = (1.04, 1.9)
"""A slow job is slower by a log-uniform factor in this range."""
_LONGEST = 3.0
"""No drawn job has more iterations than this multiple of their median."""
_KILLS, _RDMA = 0.6, 0.8
_JITTER = 0.01
_LAUNCH_S = (40.0, 150.0)
_SAVE_S, _EVALUATION_S = 20.0, 12.0


@dataclass(frozen=True)
class Drawn:
    """A drawn job, and the scene of its failure."""

    job: LogJob
    fate: Fate
    scene: Scene | None


class Course(NamedTuple):
    """The times of a job, and its fault: when, in which iteration and in which phase."""

    times: Times
    when_ns: int
    iteration: int | None
    phase: str


def drawn_job(
    fate: Fate, options: Logs, cluster: Cluster, draws: Draws, begin_ns: int, place: Place | None
) -> Drawn:
    """The job of ``fate``, which begins at ``begin_ns``; ``place`` is the GPU that fails again."""
    name = f"job{fate.number:05d}"
    rng = draws.stream("job", fate.number)
    low, high = np.log((options.min_nodes, options.max_nodes + 0.999)).tolist()
    count = min(int(np.exp(rng.uniform(low, high))), options.max_nodes)
    course = _course(fate, options, rng, begin_ns)
    user = f"u{fate.user:02d}"
    tp, pp, dp = _parallelism(rng, count, cluster.gpus_per_server)
    framework = FRAMEWORKS[draws.number("framework", fate.user) % len(FRAMEWORKS)]
    job = LogJob(
        name=name,
        title=_TITLES[int(rng.integers(len(_TITLES)))],
        user=user,
        job_id=800_000 + fate.number,
        nodes=_nodes(rng, count, cluster.servers, place),
        gpus=cluster.gpus_per_server,
        homes=homes(count, cluster.gpus_per_server),
        framework=framework,
        versions=tool_versions(draws, user, framework, fate.choice),
        layout=options.layout or LAYOUTS[int(rng.integers(len(LAYOUTS)))],
        nccl_debug=options.nccl_debug,
        calls=options.calls,
        dp=dp,
        pp=pp,
        tp=tp,
        times=course.times,
        timeout_s=_TIMEOUTS_S[int(rng.integers(len(_TIMEOUTS_S)))],
        kills=bool(rng.uniform() < _KILLS),
        rdma=bool(rng.uniform() < _RDMA),
        clocks_ns=clocks(draws, name, count, options),
        draws=draws,
    )
    return Drawn(job, fate, _scene(job, fate, course, rng, place))


class Place(NamedTuple):
    """A GPU: the name of its node, and its local rank."""

    node: str
    local: int


def homes(nodes: int, gpus: int) -> tuple[tuple[int, int], ...]:
    """Node and local rank of every rank, as torchrun numbers them."""
    return tuple((node, local) for node in range(nodes) for local in range(gpus))


def clocks(draws: Draws, name: str, nodes: int, options: Logs) -> tuple[int, ...]:
    """Offsets of the nodes' clocks [ns]."""
    spread_ns = options.clock_spread_ms * 1e6
    drawn = draws.stream("clocks", name).normal(scale=spread_ns, size=nodes)
    return tuple(drawn.astype(np.int64).tolist())


def tool_versions(draws: Draws, user: str, framework: Framework, choice: Choice) -> dict[str, str]:
    """The versions that ``user`` has of each tool."""
    found = {}
    for tool, kinds in versions(framework).items():
        held_out = [kind for kind in kinds if kind.held_out]
        allowed = [*kinds]
        if choice == "open":
            allowed = [kind for kind in kinds if not kind.held_out]
        elif choice == "held out" and held_out:
            allowed = held_out
        number = draws.number("version", user, tool)
        found[tool] = allowed[number % len(allowed)].version
    return found


def has_held_out(job: LogJob) -> bool:
    """Whether a version of one of the job's tools is held out."""
    return any(
        kind.held_out
        for tool, kinds in versions(job.framework).items()
        for kind in kinds
        if kind.version == job.versions[tool]
    )


def _parallelism(rng: np.random.Generator, nodes: int, gpus: int) -> tuple[int, int, int]:
    """Tensor, pipeline and data parallelism of a job on so many nodes."""
    tps = [size for size in (1, 2, 4, 8) if gpus % size == 0]
    pps = [size for size in (1, 2, 4) if nodes % size == 0]
    tp, pp = int(rng.choice(tps)), int(rng.choice(pps))
    return tp, pp, nodes * gpus // (tp * pp)


def _nodes(
    rng: np.random.Generator, count: int, servers: int, place: Place | None
) -> tuple[str, ...]:
    """Neighbouring servers; they contain ``place``."""
    low, high = 0, servers - count
    index = server_index(place.node) if place else None
    if index is not None:
        low, high = max(low, index - count + 1), min(high, index)
    first = int(rng.integers(low, high + 1))
    return tuple(server_name(first + number) for number in range(count))


def _course(fate: Fate, options: Logs, rng: np.random.Generator, begin_ns: int) -> Course:
    """When the job does what, up to its failure."""
    total = max(8, int(options.iterations * min(rng.lognormal(0, 0.4), _LONGEST)))
    save, evaluate = max(2, total // 6), max(3, total // 4)
    launch_ns = int(rng.uniform(*_LAUNCH_S) * SECOND_NS)
    first = 1 + save * int(rng.integers(0, 4))
    training_ns = begin_ns + launch_ns
    lengths = options.step_s * rng.lognormal(0, 0.3) * rng.lognormal(0, _JITTER, total)
    plan = _Plan(begin_ns, training_ns, first, first + total - 1, save, evaluate)
    submit_ns = begin_ns - int(rng.exponential(600) * SECOND_NS)
    kind = fate.kind
    if kind is None:
        times = plan.times(lengths, submit_ns)
        return Course(times, times.last_ns, None, "iteration")
    phase = kind.phases[int(rng.integers(len(kind.phases)))]
    share = float(rng.uniform(0.05, 0.95))
    if kind.stage == "launch":
        when_ns = begin_ns + int(launch_ns * kind.launched)
        return Course(plan.times(lengths[:0], submit_ns), when_ns, None, "launch")
    if kind.stage == "slow":
        return _slow(plan, lengths, submit_ns, rng)
    return _broken(plan, lengths, submit_ns, share, phase, options.calls)


def _slow(plan: _Plan, lengths: Floats, submit_ns: int, rng: np.random.Generator) -> Course:
    """From some iteration on, all are slower; the job is cancelled later."""
    low, high = np.log(_SLOWER).tolist()
    since = max(1, int(len(lengths) * rng.uniform(0.2, 0.6)))
    until = max(since + 2, int(len(lengths) * rng.uniform(0.75, 0.98)))
    slower = np.where(np.arange(len(lengths)) >= since, np.exp(rng.uniform(low, high)), 1.0)
    times = plan.times((lengths * slower)[:until], submit_ns)
    return Course(times, int(times.starts_ns[since]), plan.first + since, "iteration")


def _broken(
    plan: _Plan, lengths: Floats, submit_ns: int, share: float, phase: str, calls: int
) -> Course:
    """The job breaks off within an iteration, or in the pause after one."""
    done = max(1, int(len(lengths) * share))
    if phase == "iteration":
        times = plan.times(lengths[:done], submit_ns)
        into_ns = int(lengths[done] * SECOND_NS * (calls // 2 + 0.25) / calls)
        return Course(times, times.last_ns + into_ns, plan.first + done, phase)
    every = plan.save if phase == "checkpoint" else plan.evaluate
    last = max(every, (plan.first + done - 1) // every * every)
    while last < plan.first:
        last += every
    times = plan.times(lengths[: last - plan.first + 1], submit_ns, broken=phase)
    return Course(times, times.last_ns + 2 * SECOND_NS, last + 1, phase)


@dataclass(frozen=True)
class _Plan:
    """What a job plans: when it begins, its iterations, and after which it pauses."""

    begin_ns: int
    training_ns: int
    first: int
    total: int
    save: int
    evaluate: int

    def times(self, lengths_s: Floats, submit_ns: int, broken: str = "") -> Times:
        """The times of iterations with these lengths; the last pause may be ``broken`` off."""
        numbers = self.first + np.arange(len(lengths_s))
        evaluates, saves = numbers % self.evaluate == 0, numbers % self.save == 0
        gaps = evaluates * _EVALUATION_S + saves * _SAVE_S
        before = np.append(0.0, np.cumsum(gaps)[:-1]) if len(gaps) else gaps
        lengths_ns = np.round((np.cumsum(lengths_s) + before) * SECOND_NS).astype(np.int64)
        ends: Ints = self.training_ns + lengths_ns
        evaluations = _pauses(numbers[evaluates], ends[evaluates], _EVALUATION_S)
        begins = ends + np.round(evaluates * _EVALUATION_S * SECOND_NS).astype(np.int64)
        checkpoints = _pauses(numbers[saves], begins[saves], _SAVE_S)
        if broken:
            gaps[-1] = evaluates[-1] * _EVALUATION_S if broken == "checkpoint" else 0.0
        if broken == "checkpoint":
            checkpoints[-1] = checkpoints[-1]._replace(end_ns=None)
        elif broken == "evaluation":
            evaluations[-1] = evaluations[-1]._replace(end_ns=None)
            checkpoints = [save for save in checkpoints if save.iteration < numbers[-1]]
        return Times(
            submit_ns,
            self.begin_ns,
            self.training_ns,
            self.first,
            self.total,
            np.append(self.training_ns, ends + np.round(gaps * SECOND_NS).astype(np.int64)),
            ends,
            tuple(checkpoints),
            tuple(evaluations),
        )


def _pauses(numbers: Ints, begins_ns: Ints, length_s: float) -> list[Pause]:
    length_ns = round(length_s * SECOND_NS)
    pairs = zip(numbers.tolist(), begins_ns.tolist(), strict=True)
    return [Pause(number, begin_ns, begin_ns + length_ns) for number, begin_ns in pairs]


def _scene(
    job: LogJob, fate: Fate, course: Course, rng: np.random.Generator, place: Place | None
) -> Scene | None:
    if fate.kind is None:
        return None
    rank = int(rng.integers(job.ranks))
    if place is not None:
        rank = job.ranks_of[job.nodes.index(place.node)][place.local]
    slow = fate.kind.stage == "slow"
    scene = Scene(
        job=job,
        tools=Tools.of(job),
        rng=job.generator("scene"),
        when_ns=course.when_ns,
        iteration=course.iteration,
        phase=course.phase,
        rank=rank,
        slow=slow,
    )
    fate.kind().unfold(scene)
    if slow:
        scene.lines = [line for line in scene.lines if line.time_ns < job.times.last_ns]
        limit = rng.uniform() < 0.3
        ending = Ending("TIMEOUT", "0:0") if limit else Ending("CANCELLED", "0:15")
        at_ns = job.times.last_ns + SECOND_NS
        job_is_cancelled(scene, at_ns, "TIME LIMIT" if limit else "", ending)
    return scene
