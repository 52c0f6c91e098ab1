"""Lines that look like errors, in healthy jobs too: warnings, retries, errors that are corrected.

Each kind has a place (a rank, an agent, a kernel), a moment, and a mean number in a job and node.
Sources: public logs of PyTorch, NCCL and BLOOM; NVIDIA's logsage lists several as benign.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from prism_sim.logs.job import AGENT, KERNEL, LogJob, Source
from prism_sim.logs.scene import Written
from prism_sim.logs.text import SECOND_NS, bare_day, milliseconds
from prism_sim.logs.tools import Tools


class Noise(NamedTuple):
    """A kind of line: who prints it, when, how often in a job and node, and its text."""

    event: str
    place: Literal["rank", "agent", "kernel"]
    moment: Literal["launch", "any"]
    mean: float
    text: str


KINDS = (
    Noise(
        "c10d.address_family",
        "agent",
        "launch",
        0.8,
        "[W{c10} socket.cpp:752] [c10d] The client socket cannot be initialized to connect to "
        "[{first}]:29500 (errno: 97 - Address family not supported by protocol).",
    ),
    Noise(
        "python.future_warning",
        "rank",
        "launch",
        1.0,
        "/home/{user}/src/model/layers.py:58: FutureWarning: `torch.cuda.amp.custom_fwd(args...)` "
        "is deprecated. Please use `torch.amp.custom_fwd(args..., device_type='cuda')` instead.",
    ),
    Noise(
        "c10d.device_unknown",
        "rank",
        "launch",
        1.0,
        "{group} using GPU {local} to perform barrier as devices used by this process are "
        "currently unknown. This can potentially cause a hang if this rank to GPU mapping is "
        "incorrect.",
    ),
    Noise(
        "deepspeed.overflow",
        "rank",
        "any",
        0.3,
        "[deepspeed] OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: 65536, reducing "
        "to 32768",
    ),
    Noise(
        "storage.retry",
        "rank",
        "any",
        0.3,
        "{logging} ERROR storage: upload of part 17 failed: Connection reset by peer, retrying "
        "(1/4)",
    ),
    Noise(
        "metrics.retry",
        "rank",
        "any",
        0.1,
        "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [504]>); "
        "wandb: Network error (ConnectTimeout), entering retry loop.",
    ),
    Noise(
        "kernel.corrected",
        "kernel",
        "any",
        0.4,
        "pcieport 0000:00:1c.4: AER: Corrected error received: 0000:04:00.0",
    ),
    Noise(
        "kernel.xid_43",
        "kernel",
        "launch",
        0.05,
        "NVRM: Xid ({bus}): 43, pid=1311, name=python3, Ch 00000008, engmask 00000101",
    ),
    Noise(
        "kernel.memory_corrected",
        "kernel",
        "any",
        0.1,
        "EDAC MC1: 1 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
    ),
    Noise(
        "kernel.denied",
        "kernel",
        "any",
        0.3,
        'audit: type=1400 apparmor="DENIED" operation="open" profile="/usr/sbin/chronyd"',
    ),
)


def noise(job: LogJob, tools: Tools, rate: float) -> Iterator[Written]:
    """The lines of all nodes; ``rate`` multiplies their means."""
    for node, ranks in enumerate(job.ranks_of):
        rng = job.generator("noise", node)
        for sort in KINDS:
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
