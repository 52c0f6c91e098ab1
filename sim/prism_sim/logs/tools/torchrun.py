"""torchrun's agent: it starts the ranks of its node, and reports the first that failed there.

Source: pytorch/pytorch, torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py,
torch/_logging/_internal.py (the prefix of 2.3 and later), torch/distributed/run.py.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from prism_sim.logs.text import Message, date_time, message, milliseconds, padded_day
from prism_sim.logs.tools.base import Tool

SCRIPT = {"megatron": "pretrain_gpt.py", "deepspeed": "train.py"}


class Exit(NamedTuple):
    """The end of a rank: its exit code (minus the signal), and when the agent noticed it."""

    rank: int
    code: int
    noticed_ns: int


class Torchrun(Tool):
    """torchrun of PyTorch 2.6."""

    name: ClassVar[str] = "torchrun"
    version: ClassVar[str] = "2.6"

    def line(self, level: str, node: int, time_ns: int, place: tuple[str, int], text: str) -> str:
        """One line of the agent's Python log; ``place`` is the file and its line."""
        stamp = padded_day(self.job.clock(node, time_ns))
        file, number = place
        where = f"site-packages/torch/distributed/{file}:{number}"
        return f"{level[0]}{stamp} {self.job.agent_pid(node)} {where}] {text}"

    def say(
        self, event: str, node: int, time_ns: int, rank: int | None = None, **values: Any
    ) -> Message:
        """The lines of a statement, which may be about a ``rank`` of the node."""
        if rank is not None:
            values |= {"local": self.job.homes[rank][1], "pid": self.job.pid(rank)}
        lines = (
            self.line(level, node, time_ns, (file, number), text.format(**values))
            for level, file, number, text in self.statement(event)
        )
        return message(f"torchrun.{event}", *lines)

    def summary(self, node: int, ends: Sequence[Exit]) -> Message:
        """The agent's own traceback, and the ranks of its node that failed, the first one last."""
        first = min(ends, key=lambda end: end.noticed_ns // 1_000_000_000)
        others = [end for end in ends if end is not first]
        blocks = [self._block(node, number + 1, end) for number, end in enumerate(others)]
        listed = "\n".join(blocks) or "  <NO_OTHER_FAILURES>"
        script, last = SCRIPT[self.job.framework], self._block(node, 0, first)
        text = self.statement("summary").format(script=script, others=listed, first=last)
        return message("torchrun.summary", self._traceback("raise ChildFailedError("), text)

    def ended(self, node: int) -> Message:
        """The traceback of an agent that a signal ended."""
        text = self.statement("ended").format(pid=self.job.agent_pid(node))
        return message("torchrun.ended", self._traceback("raise SignalException("), text)

    def unreachable(self) -> Message:
        """The node that should coordinate the start cannot be reached."""
        text = self.statement("unreachable").format(master=self.job.nodes[0])
        return message("torchrun.unreachable", self._traceback("self._store = "), text)

    def _traceback(self, code: str) -> str:
        text: str = self.statement("traceback")
        return text.format(packages=self.packages, code=code)

    def _block(self, node: int, number: int, end: Exit) -> str:
        local, pid = self.job.homes[end.rank][1], self.job.pid(end.rank)
        reason = self.statement("advice")
        if end.code < 0:
            name = signal.Signals(-end.code).name
            reason = self.statement("signal").format(number=-end.code, name=name, pid=pid)
        text: str = self.statement("block")
        return text.format(
            number=number, time=date_time(self.job.clock(node, end.noticed_ns), "_"),
            host=self.job.nodes[node], rank=end.rank, local=local, code=end.code, pid=pid,
            reason=reason,
        )  # fmt: skip


class Torchrun22(Torchrun):
    """torchrun of PyTorch 2.2: another prefix."""

    version: ClassVar[str] = "2.2"

    def line(self, level: str, node: int, time_ns: int, place: tuple[str, int], text: str) -> str:
        stamp = milliseconds(self.job.clock(node, time_ns))
        name = place[0].removesuffix(".py").replace("/", ".")
        return f"[{stamp}] torch.distributed.{name}: [{level}] {text}"
