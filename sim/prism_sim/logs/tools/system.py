"""The system: Slurm, and the kernel of a node.

Slurm: srun and slurmstepd report ended tasks, and end the others.

Source: SchedMD/slurm, src/slurmd/slurmstepd/req.c, src/srun/launch.c and
src/plugins/task/cgroup.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.logs.text import Message, date_time, message, syslog
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


# The kernel of a node: the GPU driver's Xid errors, memory, disks, links and machine checks.
#
# Source: NVIDIA/open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/rc/kernel_rc.c and
# inc/nverror.h; torvalds/linux, mm/oom_kill.c, kernel/hung_task.c, drivers/net/ethernet/mellanox.

_BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")


class Kernel(Tool):
    """Lines with the time since the node started, as dmesg prints them; driver 535."""

    name: ClassVar[str] = "kernel"
    version: ClassVar[str] = "535"

    def line(self, node: int, time_ns: int, text: str) -> str:
        up_ns = 86_400_000_000_000 * (2 + self.job.draws.number("boot", self.job.nodes[node]) % 40)
        seconds, part = divmod(self.job.clock(node, time_ns) % up_ns, 1_000_000_000)
        return f"[{seconds:5d}.{part // 1000:06d}] {text}"

    def write(self, event: str, node: int, time_ns: int, *texts: str) -> Message:
        """Any line of the kernel."""
        return message(f"kernel.{event}", *(self.line(node, time_ns, text) for text in texts))

    def bus(self, local: int) -> str:
        return f"PCI:0000:{_BUSES[local % len(_BUSES)]}:{local // len(_BUSES):02x}"

    def xid(self, rank: int, time_ns: int, number: int, text: str, *, own: bool = True) -> Message:
        """An error of the GPU of ``rank``; ``own`` is whether its process is known."""
        node, local = self.job.homes[rank]
        who = f"pid={self.job.pid(rank)}, name=python3, " if own else ""
        line = f"NVRM: Xid ({self.bus(local)}): {number}, {who}{text}"
        return self.write(f"xid_{number}", node, time_ns, line)

    def killed(self, node: int, time_ns: int, pid: int, *, cgroup: bool) -> Message:
        """Memory is exhausted, and a process of it ends."""
        scope = "Memory cgroup out of memory" if cgroup else "Out of memory"
        return self.write(
            "out_of_memory",
            node,
            time_ns,
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            f"{scope}: Killed process {pid} (python3) total-vm:412903872kB, "
            "anon-rss:236172032kB, file-rss:71680kB, shmem-rss:8192kB, UID:20417 "
            "pgtables:474112kB oom_score_adj:0",
        )


class Kernel575(Kernel):
    """Lines as the journal prints them; driver 575."""

    version: ClassVar[str] = "575"
    held_out: ClassVar[bool] = True

    def line(self, node: int, time_ns: int, text: str) -> str:
        return f"{syslog(self.job.clock(node, time_ns))} {self.job.nodes[node]} kernel: {text}"
