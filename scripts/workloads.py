"""Published training runs beside what the simulator makes of them: step times and bytes.

Step times are those of the simulated job. Bytes are what its flows carried, beside what the
parallel layout implies in closed form; nothing of the simulator is used for that but the model's
published sizes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from published_runs import PLAIN, RUNS, PublishedRun

from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.run import Run
from prism_sim.scenario.job import Job
from prism_sim.simulate import simulate
from prism_sim.training.costs import step_flops

PUBLISHED = Path(__file__).resolve().parent.parent / "scenarios" / "published"

HEAD = """\
# Published training runs, simulated

Each run is a scenario below `scenarios/published`, in the layout that its authors give, on GPUs
and links with the figures of their data sheets and of NCCL's tuning. Made by
`python scripts/reference.py workloads`.

One number is taken from measured steps, and one for each generation of GPU: the fraction of peak
that matrix products reach (`mfu`). A100: 0.665, so that the 175B run with selective recomputation
comes out. H100 and H800: 0.557, so that Llama 3 405B on 8,192 GPUs does. All other runs use these
two as they are; nothing is fitted to them. Beside products there are, by closed forms: norms,
activation functions and unfused attention at memory bandwidth (`kernels`), tensor-parallel
exchanges over NVLink, pipeline bubbles, head and embedding, messages and gradients on the
simulated network, the optimizer.

## Step times
"""
STEPS_TAIL = """\
`*`: derived from the published TFLOP/s. FLOPs are the model's, nothing computed twice. Attention:
Megatron-LM counts all of it (GPT, Mixtral); for Llama the half that the causal mask leaves is
counted, as the paper does not say. With 6 FLOPs a parameter and token alone, Llama's published
step at 8,192 tokens would be 4 % shorter, and with all of attention 4 % longer; at 131,072 tokens
40 % either way, so that row says little. Layouts of Megatron's runs are those of Calculon's files.
That Llama's stages hold 8 chunks of one layer is inferred: 126 layers and two ends without any make
16 x 8. BLOOM's data parallelism is taken as ZeRO-1, which DeepSpeed's bf16 optimizer amounts to.

Where errors are large, and why:

- *one efficiency for all widths*: 1T is predicted too slow. Products of larger matrices fill a GPU
  better (tiles and waves, NVIDIA's *Matrix multiplication background* guide), which is not
  modelled. What passes through memory is, and the last table of this section shows what it does.
- *BLOOM* ran with `CUDA_LAUNCH_BLOCKING=1` to avoid hangs, so the host's time was exposed at every
  kernel; its Omni-Path network was shared. Neither is modelled.
- *Llama on 16,384 GPUs*: the published drop from 430 to 400 is 7 %. Bubbles account for most;
  Meta's thinner upper tier, stragglers and jitter are left out.
- *DeepSeek-V3* hides the exchange of tokens behind compute (DualPipe), sends it in FP8 to at
  most four servers, and multiplies in FP8; here it is exposed, in bf16, one copy for each expert,
  under `zb-h1`. Were it free, the second row would hold: its step is compute and bubbles, and
  the published one lies between. 2 of its 120 micro-batches are simulated; each further one adds
  what all passes of one take in the slowest stage. It leaves out multi-token prediction.
- *Mixtral*: the throughput is that of release 0.9, the mapping the one listed for 0.8.

Megatron's runs with one efficiency for everything (`kernels: ideal`, 0.603 so that 175B,
selective, comes out), which is too fast for narrow models and too slow for wide ones:
"""
BYTES_HEAD = """\
## Bytes

As far as they leave a server. NVLink's are in no flow.
"""
BYTES_TAIL = """\
Closed forms are those of the papers: 2 s b h a message between stages (Narayanan et al., SC'21),
(n - 1) / n of what is reduced or gathered (Rajbhandari et al., ZeRO), two ways and two passes for
each token and expert (GShard), keys and values round a ring (ring attention). No run's authors
publish bytes that could stand here. DeepSeek-V3's are those of the 2 micro-batches and 64 replicas
that are simulated, Llama's at 131,072 tokens those of one replica. Small excess: buckets are cut
into whole bytes, and norms are held by every tensor-parallel rank. Where parameters are gathered
in the next step (Mixtral), the mean is over two steps, the first of which gathers none.
"""


@dataclass(frozen=True)
class Outcome:
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


def outcome(run: PublishedRun) -> Outcome:
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
    return Outcome(
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


def outcomes(runs: Iterable[PublishedRun] = RUNS) -> list[Outcome]:
    """Simulate ``runs``, two at a time, the largest first; in the order they are given in."""
    runs = list(runs)
    largest_first = sorted(runs, key=lambda run: -job_of(scenario_of(run)).ranks)
    with ProcessPoolExecutor(2) as pool:
        done = dict(zip(largest_first, pool.map(outcome, largest_first), strict=True))
    return [done[run] for run in runs]


def page(table: Callable[[Iterable[str], Iterable[Iterable[str]]], str]) -> str:
    """The reference page, its tables drawn by ``table``."""
    found = outcomes()
    steps = table(STEP_COLUMNS, map(_step_row, found))
    told = [one for one in found if not one.run.bound]
    sizes = table(BYTE_COLUMNS, (row for one in told for row in _byte_rows(one)))
    plain = table(
        ("run", "error"), ([one.run.name, _percent(one.error)] for one in outcomes(PLAIN))
    )
    return "\n".join(
        (HEAD, steps, _summary(found), STEPS_TAIL, plain, BYTES_HEAD, sizes, BYTES_TAIL)
    )


def _summary(found: Sequence[Outcome]) -> str:
    """Size of the error over runs that nothing was taken from, by kind of GPU."""
    lines = ["Size of the error, over the runs that nothing was taken from:", ""]
    for peak, name in ((312, "A100"), (989, "H100 and H800")):
        errors = [
            100 * abs(one.error)
            for one in found
            if one.peak_tflops == peak and not one.run.calibrates and not one.run.bound
        ]
        middle, largest = np.median(errors), max(errors)
        told = f"median {middle:.1f} %, mean {np.mean(errors):.1f} %, largest {largest:.1f} %"
        lines.append(f"- {name}, {len(errors)} runs: {told}.")
    return "\n".join(lines) + "\n"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


STEP_COLUMNS = (
    "run", "GPUs", "published step [s]", "simulated [s]", "error", "published TFLOP/s a GPU",
    "simulated", "MFU obtained", "assumed in products", "source",
)  # fmt: skip
BYTE_COLUMNS = ("run", "traffic", "GB a step and NIC", "in closed form", "error")


def _step_row(one: Outcome) -> list[str]:
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


def _byte_rows(one: Outcome) -> Iterator[list[str]]:
    for kind in sorted(one.sent.keys() | one.implied.keys()):
        sent, implied = one.sent.get(kind, 0.0), one.implied.get(kind, 0.0)
        error = f"{100 * (sent / implied - 1):+.2f} %" if implied else "-"
        yield [one.run.name, kind, f"{sent / 1e9:.3f}", f"{implied / 1e9:.3f}", error]
