"""Lines of which a source prints many, made for one window of time after another."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from prism_sim.logs.job import Ints, LogJob
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.tools import Tools


class Bulk(Protocol):
    """Many lines of one source."""

    def lines(self, start_ns: int, end_ns: int) -> tuple[Ints, list[str]]:
        """True times and texts of the lines in [start_ns, end_ns), in order of time."""


class Channels:
    """NCCL's information about the communicator of one rank, at the start.

    Parameters
    ----------
    prefix : what the file puts before each line.
    stop_ns : the rank prints nothing from then on.
    """

    _EACH = 16

    def __init__(self, job: LogJob, tools: Tools, rank: int, prefix: str, stop_ns: int) -> None:
        self._tools = tools
        self._rank = rank
        self._ranks = job.ranks
        self._prefix = prefix
        self._stop_ns = stop_ns
        begin, training = job.times.begin_ns, job.times.training_ns
        self._start_ns = begin + (training - begin) * 4 // 10
        self._each_ns = max(1, (training - begin) // 10 // self._count)
        skew = job.draws.number("skew", job.name, rank, bits=16)
        self._start_ns += self._each_ns * skew * 4 >> 16

    @property
    def _count(self) -> int:
        return 7 + 2 * self._EACH + 3

    def lines(self, start_ns: int, end_ns: int) -> tuple[Ints, list[str]]:
        last_ns = self._start_ns + self._count * self._each_ns
        if start_ns >= last_ns or end_ns <= self._start_ns:
            return np.empty(0, np.int64), []
        times = self._start_ns + self._each_ns * np.arange(self._count)
        first, last = np.searchsorted(times, (start_ns, min(end_ns, self._stop_ns))).tolist()
        texts = self._texts()[first:last]
        return times[first:last], [self._prefix + text for text in texts]

    def _texts(self) -> list[str]:
        nccl, rank, ranks = self._tools.nccl, self._rank, self._ranks
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        via = "NET/IB/0/GDRDMA" if self._tools.nccl.job.rdma else "NET/Socket/0"
        texts = nccl.opened(rank)
        for channel in range(self._EACH):
            head = f"Channel {channel:02d}/0 :"
            texts.append(nccl.info(rank, f"{head} {before}[0] -> {rank}[0] [receive] via {via}"))
            texts.append(nccl.info(rank, f"{head} {rank}[0] -> {after}[0] [send] via {via}"))
        texts += [nccl.info(rank, "Connected all rings"), nccl.info(rank, "Connected all trees")]
        return [*texts, nccl.complete(rank)]


def call_times(job: LogJob, broken_ns: int | None) -> Ints:
    """When the job's ranks make the calls of all iterations.

    ``broken_ns`` is when the last iteration breaks off, between two calls, if it does.
    """
    starts, ends = job.times.starts_ns, job.times.ends_ns
    shares = (np.arange(job.calls) + 0.5) / job.calls
    whole = starts[:-1, None] + (ends - starts[:-1])[:, None] * shares
    calls: Ints = whole.astype(np.int64).ravel()
    if broken_ns is None or broken_ns <= starts[-1]:
        return calls
    made = job.calls // 2
    each_ns = (broken_ns - int(starts[-1])) / (made + 0.25)
    rest = starts[-1] + ((np.arange(made + 1) + 0.5) * each_ns).astype(np.int64)
    return np.concatenate([calls, rest])


class Calls:
    """NCCL's line of each collective call of one rank (NCCL_DEBUG_SUBSYS=COLL).

    Buffers are the same in every iteration, so only the number of the call differs.
    """

    _KINDS = ("AllReduce", "ReduceScatter", "AllGather")

    def __init__(
        self, job: LogJob, tools: Tools, rank: int, prefix: str, stop_ns: int, calls_ns: Ints
    ) -> None:
        self._calls_ns = calls_ns
        self._skew_ns = job.draws.number("skew", job.name, rank, bits=20)
        self._stop_ns = stop_ns
        draws = job.generator("buffers", rank).integers(1 << 36, size=job.calls).tolist()
        head = prefix + tools.nccl.head(rank)
        self._heads = [
            f"{head} NCCL INFO {self._KINDS[number % 3]}: opCount " for number in range(job.calls)
        ]
        self._tails = [
            f" sendbuff 0x7f{buffer:09x}0 recvbuff 0x7f{buffer:09x}0 count "
            f"{20_000_000 + 4096 * (buffer % 1000)} datatype 9 op 0 root 0 comm 0x55{rank:08x}a0 "
            f"[nranks={job.ranks}] stream 0x55{buffer & 0xFFFFFFFF:08x}"
            for buffer in draws
        ]

    def lines(self, start_ns: int, end_ns: int) -> tuple[Ints, list[str]]:
        until_ns = min(end_ns, self._stop_ns)
        span = np.array((start_ns, until_ns)) - self._skew_ns
        first, last = np.searchsorted(self._calls_ns, span).tolist()
        heads, tails, each = self._heads, self._tails, len(self._tails)
        texts = [f"{heads[n % each]}{n:x}{tails[n % each]}" for n in range(first, last)]
        return self._calls_ns[first:last] + self._skew_ns, texts


class Iterations:
    """The framework's line of each iteration, from the rank that prints it.

    Parameters
    ----------
    without : an iteration whose line is written elsewhere.
    """

    def __init__(self, job: LogJob, tools: Tools, prefix: str, without: int | None = None) -> None:
        self._job = job
        self._tools = tools
        self._prefix = prefix
        self._without = without
        noise = job.generator("loss").normal(size=len(job.times.ends_ns))
        number = job.times.first + np.arange(len(noise))
        self._loss = 2.1 + 8.5 * np.exp(-number / 800) + 0.03 * noise
        self._norm = 0.4 + 3 * np.exp(-number / 200) + 0.02 * np.abs(noise)

    def lines(self, start_ns: int, end_ns: int) -> tuple[Ints, list[str]]:
        ends = self._job.times.ends_ns
        first, last = np.searchsorted(ends, (start_ns, end_ns)).tolist()
        rows = [row for row in range(first, last) if row != self._hidden]
        return ends[rows], [self._prefix + text for text in self._texts(rows)]

    def one(self, iteration: int) -> tuple[int, str]:
        """The time and the line of one iteration, without a prefix."""
        row = iteration - self._job.times.first
        return int(self._job.times.ends_ns[row]), self._texts([row])[0]

    @property
    def _hidden(self) -> int | None:
        return None if self._without is None else self._without - self._job.times.first

    def _texts(self, rows: list[int]) -> list[str]:
        times, trainer = self._job.times, self._tools.trainer
        lengths_ms = (times.ends_ns[rows] - times.starts_ns[rows]) / (SECOND_NS / 1000)
        columns = (
            times.ends_ns[rows].tolist(),
            [times.first + row for row in rows],
            lengths_ms.tolist(),
            self._loss[rows].tolist(),
            self._norm[rows].tolist(),
        )
        return trainer.iterations(trainer.printer(), list(zip(*columns, strict=True)))
