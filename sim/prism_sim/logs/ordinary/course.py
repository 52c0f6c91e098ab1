"""The lines of a job's course (its start, checkpoints, evaluations and end), and its noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from prism_sim.logs.job import AGENT, KERNEL, SLURM, LogJob, Pause, Source
from prism_sim.logs.scene import Written
from prism_sim.logs.text import SECOND_NS, bare_day, date_time, milliseconds
from prism_sim.logs.tools import Tools
from prism_sim.logs.tools.base import statements

_MILLISECOND_NS = 1_000_000
_FIRST = 0


def course(job: LogJob, tools: Tools) -> Iterator[Written]:
    """The lines, in no order."""
    yield from _batch(job)
    yield from _agents(job, tools)
    yield from _start(job, tools)
    for pause in job.times.saves:
        yield from _save(job, tools, pause)
    for pause in job.times.evaluations:
        yield from _evaluation(job, tools, pause)
    if job.times.first + len(job.times.ends_ns) > job.times.total:
        yield from _end(job, tools)


def _plain(source: Source, time_ns: int, *texts: str) -> Iterator[Written]:
    for number, text in enumerate(texts):
        yield Written(source, time_ns + number * 1000, text, None, "")


def _batch(job: LogJob) -> Iterator[Written]:
    begin_ns, kill = job.times.begin_ns - 2 * SECOND_NS, int(job.kills)
    yield from _plain(
        SLURM,
        begin_ns,
        f"START TIME: {date_time(begin_ns)}",
        f"+ SLURM_JOB_ID={job.job_id} SLURM_NNODES={len(job.nodes)} MASTER_ADDR={job.nodes[0]}",
        f"+ srun --kill-on-bad-exit={kill} torchrun --nnodes {len(job.nodes)} --nproc_per_node "
        f"{job.gpus} --rdzv_backend c10d --rdzv_endpoint {job.nodes[0]}:29500",
    )


def _agents(job: LogJob, tools: Tools) -> Iterator[Written]:
    for node in range(len(job.nodes)):
        at_ns = job.times.begin_ns + node * _MILLISECOND_NS
        output = tools.torchrun.say("threads", node, at_ns)
        for number, text in enumerate(output.lines):
            yield Written(Source(node), at_ns + number * 1000, text, "benign", output.event)


def _start(job: LogJob, tools: Tools) -> Iterator[Written]:
    trainer, out = tools.trainer, job.source(_FIRST, "out")
    begin_ns = job.times.begin_ns
    launch_ns = job.times.training_ns - begin_ns

    def at(share: float) -> int:
        return begin_ns + int(launch_ns * share)

    loading = "fresh" if job.times.first <= 1 else "continued"
    yield from _plain(out, at(0.2), *trainer.prints("arguments", _FIRST, begin_ns))
    yield from _plain(out, at(0.3), *trainer.prints("building", _FIRST, begin_ns))
    yield from _plain(out, at(0.39), tools.nccl.statement("library"))
    yield from _plain(out, at(0.8), *trainer.prints(loading, _FIRST, at(0.8)))
    yield from _plain(out, at(0.98), *trainer.prints("starting", _FIRST, at(0.98)))


def _save(job: LogJob, tools: Tools, pause: Pause) -> Iterator[Written]:
    trainer, out, begin_ns = tools.trainer, job.source(_FIRST, "out"), pause.start_ns
    begun = trainer.prints("saving", _FIRST, begin_ns, iteration=pause.iteration)
    yield from _plain(out, begin_ns, *begun)
    if pause.end_ns is None:
        return
    facts = {"iteration": pause.iteration, "length_ms": (pause.end_ns - begin_ns) / _MILLISECOND_NS}
    yield from _plain(out, pause.end_ns, *trainer.prints("saved", _FIRST, pause.end_ns, **facts))


def _evaluation(job: LogJob, tools: Tools, pause: Pause) -> Iterator[Written]:
    if pause.end_ns is not None:
        rank = tools.trainer.printer()
        facts = {"iteration": pause.iteration, "loss": 2.2 + 8.0 / (1 + pause.iteration / 300)}
        texts = tools.trainer.prints("evaluated", rank, pause.end_ns, **facts)
        yield from _plain(job.source(rank, "out"), pause.end_ns, *texts)


def _end(job: LogJob, tools: Tools) -> Iterator[Written]:
    at_ns = job.times.last_ns + 100 * _MILLISECOND_NS
    yield from _plain(
        job.source(_FIRST, "out"), at_ns, *tools.trainer.prints("finishing", _FIRST, at_ns)
    )
    yield from _plain(SLURM, at_ns + 5 * SECOND_NS, f"END TIME: {date_time(at_ns + 5 * SECOND_NS)}")


# Lines that look like errors, in healthy jobs too: warnings, retries, errors that are corrected.
#
# Each kind (a ``noise`` of ``tools/statements.toml``) has a place, a moment, and a mean number in a
# job and node.


class Noise(NamedTuple):
    """A kind of line: who prints it, when, how often in a job and node, and its text."""

    event: str
    place: Literal["rank", "agent", "kernel"]
    moment: Literal["launch", "any"]
    mean: float
    text: str


def noise(job: LogJob, tools: Tools, rate: float) -> Iterator[Written]:
    """The lines of all nodes; ``rate`` multiplies their means."""
    kinds = [Noise(**row) for row in statements()["noise"]]
    for node, ranks in enumerate(job.ranks_of):
        rng = job.generator("noise", node)
        for sort in kinds:
            for _ in range(int(rng.poisson(sort.mean * rate))):
                rank = int(rng.choice(ranks))
                at_ns = _moment(job, sort, float(rng.uniform()))
                local = {"agent": AGENT, "kernel": KERNEL}.get(sort.place, job.homes[rank][1])
                text = _text(sort, job, tools, rank, at_ns)
                yield Written(Source(node, local), at_ns, text, "benign", sort.event)


def _text(sort: Noise, job: LogJob, tools: Tools, rank: int, time_ns: int) -> str:
    node, local = job.homes[rank]
    shown_ns = job.clock(node, time_ns)
    text = sort.text.format(
        c10=bare_day(shown_ns),
        logging=milliseconds(shown_ns),
        group=tools.c10d.line("W", rank, time_ns, "barrier", tools.c10d.group(rank)),
        bus=tools.kernel.bus(0),
        first=job.nodes[0],
        user=job.user,
        rank=rank,
        local=local,
    )
    return tools.kernel.line(node, time_ns, text) if sort.place == "kernel" else text


def _moment(job: LogJob, sort: Noise, share: float) -> int:
    times = job.times
    begin_ns, end_ns = times.begin_ns + SECOND_NS, times.last_ns
    if sort.moment == "launch":
        end_ns = times.begin_ns + (times.training_ns - times.begin_ns) * 3 // 4
    return begin_ns + int(max(0, end_ns - begin_ns) * share)
