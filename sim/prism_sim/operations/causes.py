"""Causes of failures and their shares, as published.

Counts are the rows of ByteRobust's Table 1 (arXiv 2509.16293: 778,135 jobs in three months).
The rows sum to 55,365. The paper's text has other totals; the rows are used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Symptom = Literal["error", "hang", "slow", "manual"]
"""How a job shows a failure: it ends with an error, waits, runs slowly, or is ended by hand."""


@dataclass(frozen=True)
class Cause:
    """A cause of failures.

    Attributes
    ----------
    name : as the source has it.
    count : number of cases in the source.
    symptom : how the job shows it.
    on_server : whether it stays with a server until that is replaced.
    """

    name: str
    count: int
    symptom: Symptom
    on_server: bool


CAUSES = (
    Cause("CUDA error", 19_968, "error", True),
    Cause("CPU overload", 6_095, "error", True),
    Cause("CPU out of memory", 5_567, "error", False),
    Cause("disk space", 2_755, "error", True),
    Cause("InfiniBand", 1_599, "error", True),
    Cause("file system mount", 1_176, "error", True),
    Cause("HDFS", 1_104, "error", False),
    Cause("container", 781, "error", False),
    Cause("kernel panic", 203, "error", True),
    Cause("GPU memory", 188, "error", True),
    Cause("external service", 128, "error", False),
    Cause("GPU unavailable", 76, "error", True),
    Cause("disk", 47, "error", True),
    Cause("hang", 5_506, "hang", True),
    Cause("MFU decline", 442, "slow", True),
    Cause("NaN", 148, "error", True),
    Cause("manual restart", 9_582, "manual", False),
)
