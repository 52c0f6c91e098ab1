"""Published training runs compared with their simulations: step times and bytes.

The bytes of the simulated flows are compared with closed forms that follow from the parallel
layout. The closed forms use nothing of the simulator but the published sizes of the model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.paths import ROOT
from evaluation.reference.published_runs import PLAIN, RUNS, PublishedRun
from prism_sim.loading.job import Job
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.render.markdown import table
from prism_sim.run_folder import Run
from prism_sim.simulate import simulated
from prism_sim.studies import pool
from prism_sim.training.costs import step_flops

PROCESSES = 2
PUBLISHED = ROOT / "scenarios" / "published"


@dataclass(frozen=True)
class SimulatedRun:
    """Results of one simulated run.

    Attributes
    ----------
    step_s, published_s : step time, simulated and published [s].
    tflops, published_tflops : model FLOP/s per GPU in these times [TFLOP/s].
    products : assumed fraction of the GPU's peak in matrix products.
    peak_tflops : peak of the GPU [TFLOP/s].
    sent, implied : bytes per step and NIC by kind of traffic, simulated and in closed form.
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
    """All steps are alike, unless the next step gathers the parameters of the last."""
    return 2 if job.overlap_param_gather else 1


def model_flops(job: Job) -> float:
    """FLOPs of a step without recomputation; its kernels decide how much of attention counts."""
    return step_flops(job.model_copy(update={"recompute": "none"}))


def counted_flops(job: Job) -> float:
    """FLOPs as the authors count them: Megatron-LM also counts what the causal mask hides."""
    return model_flops(job.model_copy(update={"kernels": "ideal"} if job.mixture else {}))


def outcome(run: PublishedRun) -> SimulatedRun:
    """Simulate ``run``."""
    scenario = scenario_of(run)
    job, cluster = job_of(scenario), scenario.cluster
    with simulated(scenario) as made:
        step_s = _step_s(made, job, run)
        pairs = made.truth("pairs")
    whole = run.micro_batches or job.micro_batches
    flops = counted_flops(job) * whole / job.micro_batches
    flops_per_gpu = flops / job.ranks / 1e12
    published_s = run.step_s or flops_per_gpu / (run.tflops or 0.0)
    nics = cluster.servers * cluster.nics_per_server
    sent = pairs.groupby("kind")["bytes"].sum() / nics / job.steps
    implied = {kind: size / nics for kind, size in implied_bytes(scenario).items() if size}
    return SimulatedRun(
        run, run.gpus or job.ranks, step_s, published_s, flops_per_gpu / step_s,
        flops_per_gpu / published_s, job.mfu, cluster.gpu.peak_tflops,
        {str(kind): float(size) for kind, size in sent.items()}, implied,
    )  # fmt: skip


def _step_s(made: Run, job: Job, run: PublishedRun) -> float:
    """Duration of the last step, plus that of the micro-batches that are not simulated [s]."""
    ends = made.truth("steps").groupby("step")["end_ns"].max()
    start_ns = ends.iloc[-2] if len(ends) > 1 else made.truth("steps")["start_ns"].min()
    missing = (run.micro_batches or job.micro_batches) - job.micro_batches
    took = float(ends.iloc[-1] - start_ns)
    return (took + (missing * _micro_batch_ns(made, job) if missing else 0.0)) / 1e9


def _micro_batch_ns(made: Run, job: Job) -> float:
    """Time that one more micro-batch adds: all its passes in the slowest stage [ns]."""
    spans = made.truth("spans")
    passes = spans[spans["kind"].isin(("fwd", "bwd", "wgrad"))]
    passes = passes.drop_duplicates(["rank", "start_ns", "end_ns"])  # two beside each other
    took = passes["end_ns"] - passes["start_ns"]
    return float(took.groupby(passes["rank"]).sum().max()) / job.micro_batches


def implied_bytes(scenario: Scenario) -> dict[str, float]:
    """Bytes that cross the network in a step, by kind, in closed form.

    A stage sends 2 s b h bytes for each micro-batch and direction (SC'21, section 3.2). If n ranks
    reduce-scatter or gather data, each rank sends (n - 1) / n of it (ZeRO, section 7.1), to the
    next rank of a ring. A token goes to top_k ranks and back, forward and backward (GShard), or
    once to each of its servers (DeepSeek-V3, section 3.2.2). Keys and values go round a ring once
    forward, and with their gradients backward (ring attention).
    If the next step gathers the parameters, the first step gathers none.
    """
    job, servers = job_of(scenario), scenario.cluster.servers
    model, moe, members, m = job.model, job.mixture, job.members, job.micro_batches
    width = 2 * job.local_tokens * model.hidden
    routed = 0
    if moe is not None:
        layers = model.layers - moe.dense_layers
        routed = layers * moe.experts * model.expert_parameters(moe)
    holders = members * job.copies
    alike = holders // job.ep
    reduced = (holders - 1) * (model.total_parameters - routed) * _crossing(scenario, members)
    reduced += (alike - 1) * routed if alike > 1 else 0
    gathered = job.parameter_bytes * (1 - 1 / job.steps if job.overlap_param_gather else 1)
    sent = {
        "pp": 2.0 * (job.parts - 1) * m * members * width,
        "dp": float(reduced * (job.gradient_bytes + gathered)),
    }
    if moe is not None and job.ep > 1:
        near = min(job.ep, scenario.cluster.gpus_per_server // job.tp)
        copies = min(moe.servers, job.ep // near) if moe.servers else moe.top_k
        far = (job.ep - near) / job.ep
        there_and_back = 1 + (moe.dispatch_bytes or job.activation_bytes) / job.activation_bytes
        tokens = (model.layers - moe.dense_layers) * m * members * copies * width
        sent["ep"] = 2.0 * there_and_back * tokens * far
    if job.cp > 1 and servers > 1:
        block = 2 * 2 * job.local_tokens * model.kv_hidden
        sent["cp"] = 3.0 * model.layers * m * members * (job.cp - 1) * block
    return sent


def _crossing(scenario: Scenario, members: int) -> float:
    """Share of a ring's hops that leave a server: one hop of all that its ranks there make."""
    near = max(1, scenario.cluster.gpus_per_server // job_of(scenario).tp)
    return 1 / near if members > near else 0.0


def outcomes(runs: Iterable[PublishedRun] = RUNS) -> list[SimulatedRun]:
    """Simulate ``runs``, two at a time, the largest first; results are in the order of ``runs``.

    Each run that is complete is reported on stderr. The first that fails ends the program.
    """
    runs = list(runs)
    largest_first = sorted(runs, key=lambda run: -job_of(scenario_of(run)).ranks)
    done: dict[PublishedRun, SimulatedRun] = {}
    for run, found in pool.outcomes(outcome, largest_first, PROCESSES):
        if found.result is None:
            raise SystemExit(f"error: {run.name}: {found.error}")
        done[run] = found.result
        print(f"{len(done)} of {len(runs)} simulated: {run.name}", file=sys.stderr, flush=True)
    return [done[run] for run in runs]


def values() -> dict[str, Any]:
    """Values for the template of the reference page, by name."""
    found = outcomes()
    shown = [one for one in found if not one.run.bound]
    plain = ([one.run.name, _percent(one.error)] for one in outcomes(PLAIN))
    return {
        "steps": table(STEP_COLUMNS, map(step_row, found)),
        "errors": _errors(found),
        "plain": table(("run", "error"), plain),
        "bytes": table(BYTE_COLUMNS, (row for one in shown for row in _byte_rows(one))),
    }


def _errors(found: Sequence[SimulatedRun]) -> list[dict[str, str]]:
    """Size of the error by kind of GPU, over runs from which no number was taken [%]."""
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
    "run", "GPUs", "published step [s]", "simulated [s]", "error", "published TFLOP/s per GPU",
    "simulated", "MFU obtained", "assumed in products", "source",
)  # fmt: skip
BYTE_COLUMNS = ("run", "traffic", "GB per step and NIC", "in closed form", "error")


def step_row(one: SimulatedRun) -> list[str]:
    note = " (calibrates)" if one.run.calibrates else ""
    derived = "" if one.run.step_s else "*"
    return [
        one.run.name,
        f"{one.gpus:,}",
        f"{one.published_s:.2f}{derived}",
        f"{one.step_s:.2f}",
        f"{_percent(one.error)}{note}",
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
