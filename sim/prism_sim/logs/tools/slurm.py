"""Slurm: srun and slurmstepd report ended tasks, and end the others.

Source: SchedMD/slurm, src/slurmd/slurmstepd/req.c, src/srun/launch.c and
src/plugins/task/cgroup.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.logs.text import Message, date_time, message
from prism_sim.logs.tools.base import Tool

WORDS = {1: "Exited with exit code 1", -6: "Aborted (core dumped)", -9: "Killed", -15: "Terminated"}


class Slurm(Tool):
    """Slurm 24.05; a task is the agent of one node."""

    name: ClassVar[str] = "slurm"
    version: ClassVar[str] = "24.05"

    def say(self, event: str, node: int = 0, **values: Any) -> Message:
        """A statement about the task of a node, or about the step."""
        nodes, step = self.job.nodes, f"{self.job.job_id}.0"
        known = {"host": nodes[node], "master": nodes[0], "node": node, "step": step, **values}
        return message(f"slurm.{event}", self.statement(event).format(**known))

    def ended(self, node: int, code: int) -> Message:
        """A task that failed."""
        return self.say("ended", node, words=WORDS[code])

    def cancelled(self, time_ns: int, reason: str = "") -> Message:
        """A step is cancelled; ``reason`` is ``TIME LIMIT``, ``PREEMPTION``, ``NODE FAILURE..``."""
        due = f" DUE TO {reason}" if reason else ""
        return self.say("cancelled", at=date_time(time_ns, "T"), due=due)


class Slurm22(Slurm):
    """Slurm 22.05."""

    version: ClassVar[str] = "22.05"
