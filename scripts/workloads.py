"""Published training runs beside what the simulator makes of them: step times and bytes.

Step times are those of the simulated job. Bytes are what its flows carried, beside what the
parallel layout implies in closed form; nothing of the simulator is used for that but the model's
published sizes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prism_sim.loading.job import Job
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.simulate import simulate
from prism_sim.training.costs import step_flops
from published_runs import PLAIN, RUNS, PublishedRun

PUBLISHED = Path(__file__).resolve().parent.parent / "scenarios" / "published"


@dataclass(frozen=True)
class SimulatedRun:
    """One run as simulated.

    Attributes
    ----------
    step_s, published_s : length of a step [s].
    tflops, published_tflops : model FLOP/s a GPU that they mean [TFLOP/s].
    products : fraction of the GPU's peak in products, as assumed.
    peak_tflops : of the GPU.
    sent, implied : bytes a step and NIC by kind of traffic, simulated and in closed form.
    """

    run: PublishedRun
    gpus: int
    step_s: float
    published_s: float
    tflops: float
    published_tflops: float
    products: float
    peak_tflops: float
    sent: dict[str, float]
    implied: dict[str, float]

    @property
    def error(self) -> float:
        return self.step_s / self.published_s - 1


def scenario_of(run: PublishedRun) -> Scenario:
    """The scenario of ``run``, with its changes."""
    scenario = load(PUBLISHED / f"{run.scenario}.yaml")
    job = job_of(scenario)
    job = job.model_copy(update={**run.changes, "steps": _steps(job)})
    cluster = scenario.cluster.model_copy(update=dict(run.cluster))
    return scenario.model_copy(update={"jobs": (job,), "cluster": cluster})


def job_of(scenario: Scenario) -> Job:
    """The one job of ``scenario``."""
    ((_, job),) = scenario.modelled
    return job


def _steps(job: Job) -> int:
    """One step is like the next, but where parameters are gathered in the next one."""
    return 2 if job.overlap_param_gather else 1


def model_flops(job: Job) -> float:
    """FLOPs that a step needs, nothing computed twice; as much attention as its kernels compute."""
    return step_flops(job.model_copy(update={"recompute": "none"}))


def counted_flops(job: Job) -> float:
    """FLOPs as the authors count them: Megatron-LM counts what the causal mask hides as well."""
    return model_flops(job.model_copy(update={"kernels": "ideal"} if job.mixture else {}))


def outcome(run: PublishedRun) -> SimulatedRun:
    """Simulate ``run``."""
    scenario = scenario_of(run)
    job, cluster = job_of(scenario), scenario.cluster
    with tempfile.TemporaryDirectory() as room:
        made = Run(Path(room))
        simulate(scenario, made)
        step_s = _step_s(made, job, run)
        pairs = made.truth("pairs")
    whole = run.micro_batches or job.micro_batches
    flops = counted_flops(job) * whole / job.micro_batches
    flops_a_gpu = flops / job.ranks / 1e12
    published_s = run.step_s or flops_a_gpu / (run.tflops or 0.0)
    nics = cluster.servers * cluster.nics_per_server
    sent = pairs.groupby("kind")["bytes"].sum() / nics / job.steps
    implied = {kind: size / nics for kind, size in implied_bytes(scenario).items() if size}
    return SimulatedRun(
        run, run.gpus or job.ranks, step_s, published_s, flops_a_gpu / step_s,
        flops_a_gpu / published_s, job.mfu, cluster.gpu.peak_tflops,
        {str(kind): float(size) for kind, size in sent.items()}, implied,
    )  # fmt: skip


def _step_s(made: Run, job: Job, run: PublishedRun) -> float:
    """Length of the last step; with the micro-batches that were left out [s]."""
    ends = made.truth("steps").groupby("step")["end_ns"].max()
    began = ends.iloc[-2] if len(ends) > 1 else made.truth("steps")["start_ns"].min()
    left_out = (run.micro_batches or job.micro_batches) - job.micro_batches
    took = float(ends.iloc[-1] - began)
    return (took + (left_out * _slot_ns(made, job) if left_out else 0.0)) / 1e9


def _slot_ns(made: Run, job: Job) -> float:
    """What one more micro-batch adds: all passes of it through the slowest stage [ns]."""
    spans = made.truth("spans")
    passes = spans[spans["kind"].isin(("fwd", "bwd", "wgrad"))]
    took = passes["end_ns"] - passes["start_ns"]
    return float(took.groupby(passes["rank"]).sum().max()) / job.micro_batches


def implied_bytes(scenario: Scenario) -> dict[str, float]:
    """Bytes that cross the network in a step, by kind, in closed form.

    Stages hand on 2 s b h bytes a micro-batch and direction (SC'21, section 3.2). Of what n ranks
    reduce-scatter or gather, each sends (n - 1) / n (ZeRO, section 7.1), to the next one of a ring.
    A token goes to top_k ranks and back, forward and backward (GShard). Keys and values go round
    a ring once forward, and with their gradients backward (ring attention). Parameters that are
    gathered in the next step are so in all steps but the first.
    """
    job, servers = job_of(scenario), scenario.cluster.servers
    model, moe, members, m = job.model, job.mixture, job.members, job.micro_batches
    width = 2 * job.local_tokens * model.hidden
    routed = 0
    if moe is not None:
        layers = model.layers - moe.dense_layers
        routed = layers * moe.experts * model.expert_parameters(moe)
    alike = members // job.ep
    reduced = (members - 1) * (model.total_parameters - routed) * _crossing(scenario, members)
    reduced += (alike - 1) * routed if alike > 1 else 0
    gathered = job.parameter_bytes * (1 - 1 / job.steps if job.overlap_param_gather else 1)
    sent = {
        "pp": 2.0 * (job.parts - 1) * m * members * width,
        "dp": float(reduced * (job.gradient_bytes + gathered)),
    }
    if moe is not None and job.ep > 1:
        near = min(job.ep, scenario.cluster.gpus_per_server // job.tp)
        far = (job.ep - near) / job.ep
        sent["ep"] = 4.0 * (model.layers - moe.dense_layers) * m * members * moe.top_k * width * far
    if job.cp > 1 and servers > 1:
        block = 2 * 2 * job.local_tokens * model.kv_hidden
        sent["cp"] = 3.0 * model.layers * m * members * (job.cp - 1) * block
    return sent


def _crossing(scenario: Scenario, members: int) -> float:
    """Part of a ring's hops that leave a server: one of those that its members there make."""
    near = max(1, scenario.cluster.gpus_per_server // job_of(scenario).tp)
    return 1 / near if members > near else 0.0


def outcomes(runs: Iterable[PublishedRun] = RUNS) -> list[SimulatedRun]:
    """Simulate ``runs``, two at a time, the largest first; in the order they are given in."""
    runs = list(runs)
    largest_first = sorted(runs, key=lambda run: -job_of(scenario_of(run)).ranks)
    with ProcessPoolExecutor(2) as pool:
        done = dict(zip(largest_first, pool.map(outcome, largest_first), strict=True))
    return [done[run] for run in runs]


def values() -> dict[str, Any]:
    """Tables and figures of the reference page, by the names that its template uses."""
    found = outcomes()
    shown = [one for one in found if not one.run.bound]
    plain = ([one.run.name, _percent(one.error)] for one in outcomes(PLAIN))
    return {
        "steps": table(STEP_COLUMNS, map(_step_row, found)),
        "errors": _errors(found),
        "plain": table(("run", "error"), plain),
        "bytes": table(BYTE_COLUMNS, (row for one in shown for row in _byte_rows(one))),
    }


def _errors(found: Sequence[SimulatedRun]) -> list[dict[str, str]]:
    """Size of the error by kind of GPU, over runs that no number was taken from [%]."""
    rows = []
    for peak, name in ((312, "A100"), (989, "H100 and H800")):
        errors = [
            100 * abs(one.error)
            for one in found
            if one.peak_tflops == peak and not one.run.calibrates and not one.run.bound
        ]
        figures = {"median": np.median(errors), "mean": np.mean(errors), "largest": max(errors)}
        shown = {key: f"{value:.1f}" for key, value in figures.items()}
        rows.append({"gpu": name, "runs": str(len(errors)), **shown})
    return rows


def _percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


STEP_COLUMNS = (
    "run", "GPUs", "published step [s]", "simulated [s]", "error", "published TFLOP/s a GPU",
    "simulated", "MFU obtained", "assumed in products", "source",
)  # fmt: skip
BYTE_COLUMNS = ("run", "traffic", "GB a step and NIC", "in closed form", "error")


def _step_row(one: SimulatedRun) -> list[str]:
    from_here = " (calibrates)" if one.run.calibrates else ""
    derived = "" if one.run.step_s else "*"
    return [
        one.run.name,
        f"{one.gpus:,}",
        f"{one.published_s:.2f}{derived}",
        f"{one.step_s:.2f}",
        f"{_percent(one.error)}{from_here}",
        f"{one.published_tflops:.0f}",
        f"{one.tflops:.0f}",
        f"{100 * one.tflops / one.peak_tflops:.1f} %",
        f"{100 * one.products:.1f} %",
        one.run.source,
    ]


def _byte_rows(one: SimulatedRun) -> Iterator[list[str]]:
    for kind in sorted(one.sent.keys() | one.implied.keys()):
        sent, implied = one.sent.get(kind, 0.0), one.implied.get(kind, 0.0)
        error = f"{100 * (sent / implied - 1):+.2f} %" if implied else "-"
        yield [one.run.name, kind, f"{sent / 1e9:.3f}", f"{implied / 1e9:.3f}", error]
