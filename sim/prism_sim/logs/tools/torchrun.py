"""torchrun's agent: it starts the ranks of its node, and reports the first that failed there.

Source: pytorch/pytorch, torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py,
torch/_logging/_internal.py (the prefix of 2.3 and later), torch/distributed/run.py.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from prism_sim.logs.text import Message, date_time, message, milliseconds, padded_day
from prism_sim.logs.tools.base import Tool

SCRIPT = {"megatron": "pretrain_gpt.py", "deepspeed": "train.py"}
BORDER, LINE = "=" * 60, "-" * 60
_API = "elastic/multiprocessing/api.py"
_STARS = "*" * 41
_ADVICE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


class Exit(NamedTuple):
    """The end of a rank: its exit code (minus the signal), and when the agent noticed it."""

    rank: int
    code: int
    noticed_ns: int


class Torchrun(Tool):
    """torchrun of PyTorch 2.6."""

    version: ClassVar[str] = "2.6"

    def line(self, level: str, node: int, time_ns: int, place: tuple[str, int], text: str) -> str:
        """One line of the agent's Python log; ``place`` is the file and its line."""
        stamp = padded_day(self.job.clock(node, time_ns))
        file, number = place
        where = f"site-packages/torch/distributed/{file}:{number}"
        return f"{level[0]}{stamp} {self.job.agent_pid(node)} {where}] {text}"

    def threads(self, node: int, time_ns: int) -> Message:
        """The advice about OMP_NUM_THREADS at the start."""
        advice = (
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to "
            "avoid your system being overloaded, please further tune the variable for optimal "
            "performance in your application as needed. "
        )
        texts = ("", _STARS, advice, _STARS)
        lines = (self.line("WARNING", node, time_ns, ("run.py", 792), text) for text in texts)
        return message("torchrun.threads", *lines)

    def closing(self, node: int, time_ns: int, rank: int) -> Message:
        """It ends a rank that still runs."""
        text = f"Sending process {self.job.pid(rank)} closing signal SIGTERM"
        return message("torchrun.closing", self.line("WARNING", node, time_ns, (_API, 897), text))

    def forced(self, node: int, time_ns: int, rank: int) -> Message:
        """A rank did not end within 30 s."""
        pid = self.job.pid(rank)
        text = (
            f"Unable to shutdown process {pid} via Signals.SIGTERM, forcefully exiting via "
            "Signals.SIGKILL"
        )
        return message("torchrun.forced", self.line("WARNING", node, time_ns, (_API, 916), text))

    def failed(self, node: int, time_ns: int, end: Exit) -> Message:
        """A rank failed."""
        local, pid = self.job.homes[end.rank][1], self.job.pid(end.rank)
        text = (
            f"failed (exitcode: {end.code}) local_rank: {local} (pid: {pid}) of binary: "
            "/usr/bin/python3"
        )
        return message("torchrun.failed", self.line("ERROR", node, time_ns, (_API, 869), text))

    def summary(self, node: int, ends: Sequence[Exit]) -> Message:
        """The agent's own traceback, and the ranks of its node that failed, the first one last."""
        first = min(ends, key=lambda end: end.noticed_ns // 1_000_000_000)
        others = [end for end in ends if end is not first]
        blocks = [self._block(node, number + 1, end) for number, end in enumerate(others)]
        raised = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
        return message(
            "torchrun.summary",
            *self._traceback("raise ChildFailedError("),
            raised,
            BORDER,
            f"{SCRIPT[self.job.framework]} FAILED",
            LINE,
            "Failures:",
            *(line for block in blocks for line in block),
            *(() if blocks else ("  <NO_OTHER_FAILURES>",)),
            LINE,
            "Root Cause (first observed failure):",
            *self._block(node, 0, first),
            BORDER,
        )

    def death(self, node: int, time_ns: int) -> Message:
        """Another program ends the agent."""
        text = "Received Signals.SIGTERM death signal, shutting down workers"
        place = ("elastic/agent/server/api.py", 704)
        return message("torchrun.death", self.line("WARNING", node, time_ns, place, text))

    def ended(self, node: int) -> Message:
        """The traceback of an agent that a signal ended."""
        name = "torch.distributed.elastic.multiprocessing.api.SignalException"
        text = f"{name}: Process {self.job.agent_pid(node)} got signal: 15"
        return message("torchrun.ended", *self._traceback("raise SignalException("), text)

    def unreachable(self, node: int, time_ns: int) -> Message:
        """The node that should coordinate the start cannot be reached."""
        where = f"{self.job.nodes[0]}:29500"
        text = (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to "
            "the C10d store has failed. See inner exception for details."
        )
        refused = (
            f"torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
            f"while trying to connect to ({where})."
        )
        return message("torchrun.unreachable", *self._traceback("self._store = "), refused, text)

    def _traceback(self, code: str) -> tuple[str, ...]:
        library = f"{self.packages}/torch/distributed"
        return (
            "Traceback (most recent call last):",
            '  File "/usr/local/bin/torchrun", line 8, in <module>',
            "    sys.exit(main())",
            f'  File "{library}/run.py", line 918, in main',
            "    run(args)",
            f'  File "{library}/launcher/api.py", line 270, in launch_agent',
            f"    {code}",
        )

    def _block(self, node: int, number: int, end: Exit) -> tuple[str, ...]:
        local, pid = self.job.homes[end.rank][1], self.job.pid(end.rank)
        name = signal.Signals(-end.code).name if end.code < 0 else ""
        reason = f"Signal {-end.code} ({name}) received by PID {pid}" if name else _ADVICE
        return (
            f"[{number}]:",
            f"  time      : {date_time(self.job.clock(node, end.noticed_ns), '_')}",
            f"  host      : {self.job.nodes[node]}",
            f"  rank      : {end.rank} (local_rank: {local})",
            f"  exitcode  : {end.code} (pid: {pid})",
            "  error_file: <N/A>",
            f"  traceback : {reason}",
        )


class Torchrun22(Torchrun):
    """torchrun of PyTorch 2.2: another prefix."""

    version: ClassVar[str] = "2.2"

    def line(self, level: str, node: int, time_ns: int, place: tuple[str, int], text: str) -> str:
        stamp = milliseconds(self.job.clock(node, time_ns))
        name = place[0].removesuffix(".py").replace("/", ".")
        return f"[{stamp}] torch.distributed.{name}: [{level}] {text}"
