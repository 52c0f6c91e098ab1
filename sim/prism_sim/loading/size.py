"""Estimates the size of a simulation from its scenario before it runs.

The estimates are accurate to a factor of about three (a test compares them with measured
runs). They are used to refuse what no machine could simulate, and to warn of long runs. Two
limits are exact: times and sums of bytes are 64-bit integers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from prism_sim.cluster.topology import topology_of
from prism_sim.loading.job import Job, TracedJob
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.training.costs import pipeline_message_bytes, step_flops

ROWS_PER_S = 1e5
"""Rows of output (spans and records) a second of one core; measured on tiny/quickstart."""
BASE_BYTES = 300e6
"""Memory of a simulation of a small cluster."""
BYTES_PER_LINK = 2000.0
"""Memory of one directed link; measured with 16,384 servers of 8 NICs."""
BYTES_PER_RANK = 10e3
"""Memory of one rank with its connections."""
MOST_ROWS = 1e11
"""More rows than this are refused: days of computing, and terabytes of output."""
MANY_ROWS = 2e8
"""More rows than this take over half an hour."""
MOST_MEMORIES = 4.0
"""Above this share of the machine's memory a scenario is refused; below, it may be warned of."""
LARGEST = 2**63 - 1
"""Largest time [ns], and largest sum of bytes."""


@dataclass(frozen=True)
class Estimate:
    """Size of a simulation.

    Attributes
    ----------
    rows : flow records and spans of the truth, together.
    memory_bytes : most memory at a time.
    """

    rows: float
    memory_bytes: float

    @property
    def duration_s(self) -> float:
        """Computing time of one core."""
        return self.rows / ROWS_PER_S


def estimate(scenario: Scenario) -> Estimate:
    """Estimate the size of the simulation of ``scenario``."""
    rows = sum(_rows(job) * _share(scenario, job) for _, job in scenario.modelled)
    rows += sum(_traced_rows(job) for job in scenario.jobs if isinstance(job, TracedJob))
    for background in scenario.background:
        senders = len(background.servers or ()) or scenario.cluster.servers
        rows += background.flows_per_s * senders * (scenario.duration_s or 0.0)
    for effect in scenario.collector.effects:  # about half of the rows are records
        rows *= (1 + effect.records_a_message(scenario.cluster)) / 2
    ranks = sum(job.ranks for _, job in scenario.modelled)
    links = directed_links(scenario.cluster)
    memory = BASE_BYTES + BYTES_PER_LINK * links + BYTES_PER_RANK * ranks
    return Estimate(rows, memory)


def directed_links(cluster: Cluster) -> float:
    """Directed links of the fabric, parallel ones counted once."""
    topology = topology_of(cluster)
    up = len(topology.leaves) * topology.spines_per_pod
    across = len(topology.spines) * topology.cores_per_plane
    return 2.0 * (len(topology.nics) + up + across)


def _rows(job: Job) -> float:
    """Rows of ``job``: each rank's passes, messages and collectives in every step."""
    passes = 2.0 * job.micro_batches * job.parts / job.pp
    messages = 2 * passes if job.pp > 1 else 0
    layers = -(-job.model.layers // job.pp)
    exchanges = layers * job.micro_batches * (4.0 * (job.cp - 1) + 4.0 * (job.ep - 1))
    gathers = float(layers * job.micro_batches * job.strategy.gathers_per_layer)
    synchronised = 2.0 * _buckets(job) * (3 if job.dp > 1 else 0)
    return job.steps * job.ranks * (passes + messages + exchanges + gathers + synchronised + 2)


def _traced_rows(job: TracedJob) -> float:
    """Rows of a job that repeats a trace."""
    graph = job.trace.graph
    if graph is None:
        return 0.0
    tasks = [len(program) for program in graph.programs]
    return float(job.iterations) * sum(tasks[number] for number in graph.ranks)


def _share(scenario: Scenario, job: Job) -> float:
    """Share of the job that is complete when the simulation ends."""
    if scenario.duration_s is None:
        return 1.0
    return min(1.0, scenario.duration_s / max(_end_s(scenario, job), 1e-9))


def _buckets(job: Job) -> float:
    """Gradient buckets of one rank."""
    limit = job.bucket_limit_params
    own = job.model.total_parameters / (job.pp * job.tp)
    return 1.0 if limit is None else max(1.0, own / limit)


def size_errors(scenario: Scenario) -> Remarks:
    """Errors: too large for any machine, or for 64-bit integers."""
    expected = estimate(scenario)
    reads = _reads(scenario)
    memory = machine_memory_bytes()
    if expected.memory_bytes > MOST_MEMORIES * memory:
        what = (
            f"the simulation would need about {expected.memory_bytes / 2**30:,.0f} GiB of memory, "
            f"and this machine has {memory / 2**30:,.0f}"
        )
        yield Remark(("cluster",), what, "make the cluster or the jobs smaller", reads)
    if expected.rows > MOST_ROWS:
        what = f"the simulation would write about {expected.rows:.1g} rows"
        how = f"at most {MOST_ROWS:.0e} are allowed; lower steps, micro_batches or the cluster"
        yield Remark(("jobs",), what, how, reads)
    for index, job in scenario.modelled:
        yield from _overflows(scenario, job, ("jobs", index), reads)


def size_warnings(scenario: Scenario) -> Remarks:
    """Warnings: a long run, or more memory than this machine has."""
    expected = estimate(scenario)
    memory = machine_memory_bytes()
    if expected.memory_bytes > 0.8 * memory:
        what = (
            f"the simulation needs about {expected.memory_bytes / 2**30:,.1f} GiB of memory, and "
            f"this machine has {memory / 2**30:,.1f}"
        )
        yield Remark(("cluster",), what, "it may fail when memory runs out")
    if expected.rows > MANY_ROWS:
        what = (
            f"the simulation takes about {expected.duration_s / 3600:,.1f} hours, and writes about "
            f"{expected.rows:.1g} rows"
        )
        yield Remark(("jobs",), what, "lower steps or micro_batches for a shorter one")


def _overflows(scenario: Scenario, job: Job, at: Loc, reads: tuple[Loc, ...]) -> Remarks:
    end_ns = scenario.epoch_ns + 1e9 * min(_end_s(scenario, job), scenario.duration_s or 1e30)
    if end_ns > LARGEST:
        what = f"job {job.name} would end after {_end_s(scenario, job) / 31_557_600:.2g} years"
        how = "times are 64-bit numbers of nanoseconds: lower steps or sizes, or raise rates"
        yield Remark(at, what, how, reads)
    if _bytes_of_a_rank(job) * job.steps > LARGEST:
        what = f"a rank of job {job.name} would send {_bytes_of_a_rank(job) * job.steps:.2g} bytes"
        yield Remark(at, what, "sums of bytes are 64-bit numbers: lower steps or sizes", reads)


def _bytes_of_a_rank(job: Job) -> float:
    """Bytes that one rank sends in a step, at most."""
    own = job.model.total_parameters / (job.pp * job.tp)
    gradients = 2.0 * own * max(job.gradient_bytes, job.parameter_bytes) * (job.dp * job.cp > 1)
    passes = 2.0 * job.micro_batches * job.parts / job.pp
    return gradients + passes * float(pipeline_message_bytes(job))


def _end_s(scenario: Scenario, job: Job) -> float:
    """Upper bound of the job's end [s]: nothing overlaps, and faults last for ever."""
    slowest = min([1.0, *(fault.speed or 1.0 for fault in scenario.faults)])
    step = step_s(scenario.cluster, job, slowest)
    slow_steps = min(job.steps, job.warm_up_steps) * (job.warm_up_factor - 1)
    down = sum(restart.noticed_after_s + restart.down_s for restart in job.restarts)
    down += sum((fault.lasts_ns or 0) / 1e9 for fault in scenario.faults)
    return job.start_s + step * (job.steps + slow_steps) + down


def step_s(cluster: Cluster, job: Job, slowest: float = 1.0) -> float:
    """Upper bound of a step [s]: nothing overlaps, and everything runs at ``slowest`` speed."""
    rate = min(cluster.nic_gbps, cluster.uplink_gbps, cluster.nvlink_gbps) * 1e9 / 8 * slowest
    speed = cluster.gpu.peak_tflops * 1e12 * job.mfu * slowest
    uneven = max(job.stage_factors or (1.0,))
    compute = uneven * step_flops(job) / (job.ranks * speed)
    bubble = 1 + (job.pp - 1) / job.micro_batches
    return compute * bubble + _bytes_of_a_rank(job) / rate + job.step_overhead_ms / 1e3


def _reads(scenario: Scenario) -> tuple[Loc, ...]:
    """The locations of values that an estimate depends on."""
    keys = ("model", "steps", "micro_batches", "dp", "pp", "tp", "cp", "ep", "chunks")
    jobs = (("jobs", index, key) for index, _ in scenario.modelled for key in keys)
    return (("cluster",), ("background",), ("duration_s",), ("epoch_ns",), *jobs)


def machine_memory_bytes() -> float:
    """Memory of this machine."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
