"""Lines that look like errors, in healthy jobs too: warnings, retries, errors that are corrected.

Each kind (a ``noise`` of ``tools/statements.toml``) has a place, a moment, and a mean number in a
job and node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from prism_sim.logs.job import AGENT, KERNEL, LogJob, Source
from prism_sim.logs.scene import Written
from prism_sim.logs.text import SECOND_NS, bare_day, milliseconds
from prism_sim.logs.tools import Tools
from prism_sim.logs.tools.base import statements


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
