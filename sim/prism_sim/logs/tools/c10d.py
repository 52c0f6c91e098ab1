"""PyTorch's process groups: the watchdog of collectives, and how it ends a rank.

Source: pytorch/pytorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp; c10/util/Logging.cpp for
the prefix (the month is not padded). Sequences as in public reports, such as NVIDIA's
performance recipes (rank368, E808).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from prism_sim.logs.text import Message, bare_day, message
from prism_sim.logs.tools.base import Tool

_LIBRARIES = "{packages}/torch/lib"
_FRAMES = (
    "c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>) + 0x{0:x} "
    f"(0x7f{{1:010x}} in {_LIBRARIES}/libc10.so)",
    f"c10d::ProcessGroupNCCL::watchdogHandler() + 0x{{0:x}} (0x7f{{1:010x}} in {_LIBRARIES}/"
    "libtorch_cuda.so)",
    f"c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x{{0:x}} (0x7f{{1:010x}} in {_LIBRARIES}/"
    "libtorch_cuda.so)",
    "<unknown function> + 0x{0:x} (0x7f{1:010x} in /lib/x86_64-linux-gnu/libc.so.6)",
)
_NCCL_FILE = "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"
_ORIGINS = {
    "CUDA error": "c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43",
    "NCCL error": f"checkForNCCLErrorsInternal at {_NCCL_FILE}:2363",
}
_TIMED_OUT = f"checkTimeout at {_NCCL_FILE}:632"
_TORN = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
    "kernels, subsequent GPU operations might run on corrupted/incomplete data."
)
_DOWN = "To avoid data inconsistency, we are taking the entire process down."
_CAUSES = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across "
    "ranks, the order of collectives is not same for all ranks or the scheduled collective, for "
    "some reason, didn't run. Additionally, this can be caused by GIL deadlock or other reasons "
    "such as network errors or bugs in the communications library (e.g. NCCL), etc. "
)


class State(NamedTuple):
    """The collectives of a rank: numbers of the last one that it enqueued, and completed."""

    enqueued: int
    completed: int


class Collective(NamedTuple):
    """A collective that waits: its number, kind and elements."""

    number: int
    kind: str
    elements: int


class C10d(Tool):
    """The process groups of PyTorch 2.6."""

    version: ClassVar[str] = "2.6"
    lines_of_source: ClassVar[dict[str, int]] = {
        "timeout": 629, "status": 2168, "stack": 667, "first": 2106, "observed": 1667,
        "received": 1746, "barrier": 4561,
        "torn": 681, "down": 695, "terminated": 1895, "stuck": 1432,
    }  # fmt: skip
    has_status: ClassVar[bool] = True
    """Whether it prints the state of its collectives, and notices dumps of other ranks."""

    def line(self, level: str, rank: int, time_ns: int, place: str, text: str) -> str:
        stamp = bare_day(self.of_rank(rank, time_ns))
        number = self.lines_of_source[place]
        return f"[rank{rank}]:[{level}{stamp} ProcessGroupNCCL.cpp:{number}] {text}"

    def group(self, rank: int) -> str:
        """The prefix of a group."""
        return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "

    def waited(self, rank: int, waits: Collective, ran_ms: int) -> str:
        """The reason of a time-out."""
        limit_ms = round(self.job.timeout_s * 1000)
        return (
            f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
            f"SeqNum={waits.number}, OpType={waits.kind}, NumelIn={waits.elements}, "
            f"NumelOut={waits.elements}, Timeout(ms)={limit_ms}) ran for {ran_ms} milliseconds "
            "before timing out."
        )

    def timeout(self, rank: int, time_ns: int, reason: str) -> Message:
        return message("c10d.timeout", self.line("E", rank, time_ns, "timeout", reason))

    def status(self, rank: int, time_ns: int, number: int, state: State) -> Message:
        """The state of the rank's collectives, and a dump that it starts."""
        text = (
            f" failure detected by watchdog at work sequence id: {number} PG status: last enqueued "
            f"work: {state.enqueued}, last completed work: {state.completed}"
        )
        no_stack = (
            "Stack trace of the failed collective not found, potentially because FlightRecorder is "
            "disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero "
            "value."
        )
        first = f"{self.group(rank)}First PG on this rank to signal dumping. "
        return message(
            "c10d.status",
            self.line("E", rank, time_ns, "status", self.group(rank) + text),
            self.line("E", rank, time_ns, "stack", no_stack),
            self.line("E", rank, time_ns, "first", first),
        )

    def observed(self, rank: int, time_ns: int, reporter: int, state: State) -> Message:
        """A rank that has not timed out dumps its state because another did."""
        seen = "Observed flight recorder dump signal from another rank via TCPStore."
        text = (
            f"Received a dump signal due to a collective timeout from  rank {reporter} and we will "
            f"try our best to dump the debug info. Last enqueued NCCL work: {state.enqueued}, last "
            f"completed NCCL work: {state.completed}.{_CAUSES}"
        )
        return message(
            "c10d.observed",
            self.line("E", rank, time_ns, "observed", self.group(rank) + seen),
            self.line("E", rank, time_ns, "received", self.group(rank) + text),
        )

    def torn(self, rank: int, time_ns: int) -> Message:
        """General sentences before it ends the process."""
        return message(
            "c10d.torn",
            self.line("E", rank, time_ns, "torn", f"[Rank {rank}] {_TORN}"),
            self.line("E", rank, time_ns, "down", f"[Rank {rank}] {_DOWN}"),
        )

    def terminated(self, rank: int, time_ns: int, reason: str) -> Message:
        """The exception of the watchdog, which ends the process with SIGABRT."""
        text = self.terminating(rank, reason)
        return message(
            "c10d.terminated",
            self.line("E", rank, time_ns, "terminated", text),
            *self.frames(rank, reason),
            "",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {text}",
        )

    def terminating(self, rank: int, reason: str) -> str:
        group = self.group(rank)
        return f"{group}Process group watchdog thread terminated with exception: {reason}"

    def frames(self, rank: int, reason: str) -> list[str]:
        """The C++ stack of an exception."""
        origin = _ORIGINS.get(reason[: len("CUDA error")], _TIMED_OUT)
        numbers = self.job.generator("frames", rank).integers(1 << 39, size=len(_FRAMES)).tolist()
        frames = (
            f"frame #{number}: {frame.format(value & 0xFFF, value, packages=self.packages)}"
            for number, (frame, value) in enumerate(zip(_FRAMES, numbers, strict=True))
        )
        return [f"Exception raised from {origin} (most recent call first):", *frames]

    def stuck(self, rank: int, time_ns: int, seconds: int) -> Message:
        """The watchdog itself makes no progress, as if a thread holds the interpreter."""
        text = (
            f"{self.group(rank)}ProcessGroupNCCL's watchdog got stuck for {seconds} seconds "
            "without making progress in monitoring enqueued collectives. This typically indicates "
            "a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be "
            "triggered by another thread holding the GIL inside a CUDA api"
        )
        return message("c10d.stuck", self.line("F", rank, time_ns, "stuck", text))


class C10d22(C10d):
    """The process groups of PyTorch 2.2: no dates, and no state of the collectives."""

    version: ClassVar[str] = "2.2"
    lines_of_source: ClassVar[dict[str, int]] = {
        "timeout": 523, "status": 1182, "stack": 1182, "first": 1182, "observed": 1182,
        "received": 1182, "barrier": 1691,
        "torn": 537, "down": 543, "terminated": 1182, "stuck": 1182,
    }  # fmt: skip
    has_status: ClassVar[bool] = False

    def line(self, level: str, rank: int, time_ns: int, place: str, text: str) -> str:
        number = self.lines_of_source[place]
        return f"[rank{rank}]:[{level} ProcessGroupNCCL.cpp:{number}] {text}"

    def group(self, rank: int) -> str:
        return f"[Rank {rank}] "

    def terminating(self, rank: int, reason: str) -> str:
        return f"[Rank {rank}] NCCL watchdog thread terminated with exception: {reason}"
