"""Kinds of lines, by the formats of the tools that print them.

A kind belongs to a class, which says what it can be in the causal structure of a failure:

- ``fault``: states a fault of the part that prints it, or of a part it names;
- ``reaction``: a part notices that another no longer answers;
- ``report``: an agent or the scheduler says that a process ended;
- ``teardown``: a process is ended by another;
- ``slow``: bad only if the job is slow at that time;
- ``moment``: all ranks pass it together, which shows how clocks differ;
- ``advice``: general sentences, and ``benign``: errors that were mended.

Sources: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, torch/distributed/elastic,
NVIDIA/nccl src, SchedMD/slurm src, NVIDIA/open-gpu-kernel-modules nverror.h, torvalds/linux.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of line: its name, class and pattern, and which tools print it (empty: any)."""

    name: str
    group: str
    pattern: re.Pattern[str]
    tools: str = ""


def _kinds(*rows: tuple[str, str, str, str]) -> tuple[Kind, ...]:
    return tuple(
        Kind(name, group, re.compile(pattern), tools) for name, group, tools, pattern in rows
    )


KINDS = _kinds(
    ("xid_secondary", "reaction", "kernel", r"NVRM: Xid \(\S+\): (?:43|45)\b"),
    ("xid", "fault", "kernel", r"NVRM: Xid \(.+?\): (?P<code>\d+)"),
    ("nvswitch", "fault", "kernel", r"SXid \(\S+\): \d+, Fatal"),
    ("out_of_memory", "fault", "kernel", r"invoked oom-killer|[Oo]ut of memory: Killed process"),
    ("segfault", "fault", "kernel", r"segfault at|general protection fault"),
    ("panic", "fault", "kernel", r"Kernel panic|BUG: (?:soft lockup|unable to handle)"),
    ("blocked", "fault", "kernel", r"blocked for more than \d+ seconds|hung_task_timeout"),
    ("blocked", "fault", "kernel", r"lustre: .*Connection to .* was lost|nfs: server \S+ not resp"),
    ("disk", "fault", "kernel", r"critical medium error|I/O error, dev|EXT4-fs error|XFS .* error"),
    ("machine_check", "fault", "kernel", r"Memory failure:|\bUE memory|Machine check events"),
    ("link", "slow", "kernel", r"(?P<device>\S+): Link (?P<state>down|up)"),
    ("throttled", "slow", "kernel", r"temperature above threshold|clock throttled"),
    ("bus", "slow", "kernel", r"Multiple Corrected error|PCIe Bus Error: severity=Corrected"),
    ("corrected", "benign", "kernel", r"Corrected error|\bCE memory|apparmor=\"DENIED\""),
    ("timeout", "reaction", "c10d", r"Watchdog caught collective operation timeout"),
    ("status", "reaction", "c10d", r"failure detected by watchdog at work|First PG on this rank"),
    ("status", "reaction", "c10d", r"Stack trace of the failed collective"),
    ("state", "reaction", "c10d", r"Observed flight recorder dump signal|Received a dump signal"),
    ("stuck", "fault", "c10d", r"watchdog got stuck for|Could not acquire GIL"),
    ("torn", "advice", "c10d", r"Some NCCL operations have failed|To avoid data inconsistency"),
    ("port", "fault", "nccl", r"async event : port error|async fatal event"),
    ("no_interface", "fault", "nccl", r"no socket interface found"),
    ("cuda_failure", "fault", "nccl", r"Cuda failure"),
    (
        "peer",
        "reaction",
        "nccl",
        r"(?:closed by remote peer|completion from peer) (?P<peer>[\d.]+)",
    ),
    ("fatal", "fault", "", r"^Fatal Python error: "),
    ("rendezvous", "moment", "agent", r"Rendezvous complete for workers"),
    ("ready", "moment", "nccl", r" - Init COMPLETE"),
    ("late", "slow", "", r"(?i)^WARN\w*\b.*\b(?:late|slow|straggl\w+|stall\w*)\b"),
    (
        "failed",
        "report",
        "agent",
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)",
    ),
    ("closing", "teardown", "agent", r"closing signal|death signal|forcefully exiting"),
    ("node_failed", "fault", "slurm", r"Node failure on (?P<node>[\w.-]+)"),
    ("job_out_of_memory", "fault", "slurm", r"oom[_-]kill event"),
    ("killed", "report", "slurm", r"(?P<node>[\w.-]+): tasks? [\d,-]+: (?:Killed|Out Of Memory)"),
    ("cancelled", "teardown", "slurm", r"(?P<node>[\w.-]+): tasks? [\d,-]+: Terminated"),
    ("ended", "report", "slurm", r"(?P<node>[\w.-]+): tasks? [\d,-]+: "),
    ("preempted", "fault", "slurm", r"CANCELLED AT .* DUE TO PREEMPTION"),
    ("cancelled", "teardown", "slurm", r"CANCELLED AT|Terminating|Job step aborted"),
)

REACTIONS = re.compile(
    r"Watchdog caught collective|ncclRemoteError|Connection closed by peer|Connection reset by peer"
)
"""An exception with such a text says that another part failed."""


TIMED_OUT = re.compile(r"Timed out waiting \d+\s?ms for (?:send|recv) operation")
"""An exception of gloo with such a text is a rank that waits for another (gloo/transport/tcp)."""


def classify(tool: str, text: str) -> tuple[Kind, re.Match[str]] | None:
    """The kind of a line; None for ordinary output."""
    for kind in KINDS:
        if (not kind.tools or kind.tools == tool) and (match := kind.pattern.search(text)):
            return kind, match
    return None
