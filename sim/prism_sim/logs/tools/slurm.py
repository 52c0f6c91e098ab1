"""Slurm: srun and slurmstepd report ended tasks, and end the others.

Source: SchedMD/slurm, src/slurmd/slurmstepd/req.c, src/srun/launch.c and
src/plugins/task/cgroup.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.text import Message, date_time, message
from prism_sim.logs.tools.base import Tool

WORDS = {1: "Exited with exit code 1", -6: "Aborted (core dumped)", -9: "Killed", -15: "Terminated"}


class Slurm(Tool):
    """Slurm 24.05; a task is the agent of one node."""

    version: ClassVar[str] = "24.05"
    oom: ClassVar[str] = (
        "Detected 1 oom_kill event in StepId={step}. Some of the step tasks have been OOM Killed."
    )

    @property
    def step(self) -> str:
        return f"{self.job.job_id}.0"

    def ended(self, node: int, code: int) -> Message:
        """The first task that failed."""
        text = f"srun: error: {self.job.nodes[node]}: task {node}: {WORDS[code]}"
        return message("slurm.ended", text)

    def out_of_memory(self, node: int) -> Message:
        """The kernel killed a process of a task."""
        text = f"slurmstepd: error: {self.oom.format(step=self.step)}"
        return message("slurm.out_of_memory", text)

    def terminating(self) -> Message:
        return message("slurm.terminating", f"srun: Terminating StepId={self.step}")

    def waiting(self) -> Message:
        text = "srun: Job step aborted: Waiting up to 62 seconds for job step to finish."
        return message("slurm.waiting", text)

    def cancelled(self, time_ns: int, reason: str = "") -> Message:
        """A step is cancelled; ``reason`` is ``TIME LIMIT``, ``PREEMPTION``, ``NODE FAILURE..``."""
        due = f" DUE TO {reason}" if reason else ""
        text = (
            f"slurmstepd: error: *** STEP {self.step} ON {self.job.nodes[0]} CANCELLED AT "
            f"{date_time(time_ns, 'T')}{due} ***"
        )
        return message("slurm.cancelled", text)

    def node_failed(self, node: int) -> Message:
        text = f"srun: error: Node failure on {self.job.nodes[node]}"
        return message("slurm.node_failed", text)


class Slurm22(Slurm):
    """Slurm 22.05."""

    version: ClassVar[str] = "22.05"
    oom: ClassVar[str] = (
        "Detected 1 oom-kill event(s) in StepId={step}. Some of your processes may have been killed"
        " by the cgroup out-of-memory handler."
    )
