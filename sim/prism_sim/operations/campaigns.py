"""Causes of failures with their published counts; a new campaign is a value and one entry below."""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.operations.failures import Cause
from prism_sim.registry import Registry


@dataclass(frozen=True)
class Campaign:
    """Causes with their counts, and where they were published."""

    name: str
    about: str
    causes: tuple[Cause, ...]


BYTEROBUST = Campaign(
    "byterobust",
    "Failures of 778,135 jobs in three months (arXiv 2509.16293, Table 1)",
    (
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
        Cause("NaN", 148, "spike", False),
        Cause("manual restart", 9_582, "manual", False),
    ),
)
"""ByteRobust's Table 1 (arXiv 2509.16293): 778,135 jobs in three months.

The rows sum to 55,365. The paper's text has other totals (38,236 explicit and 5,948 implicit
failures, where the rows give 39,687 and 6,096); the rows are used here.
"""


ACME = Campaign(
    "acme",
    "Failed jobs of LLM development in six months (NSDI'24, Table 3)",
    (
        Cause("NVLink error", 54, "error", True),
        Cause("CUDA error", 21, "error", True),
        Cause("node failure", 16, "error", True),
        Cause("ECC error", 12, "error", True),
        Cause("network error", 12, "error", True),
        Cause("connection error", 147, "error", False),
        Cause("S3 storage error", 10, "error", False),
        Cause("NCCL time-out", 6, "hang", True),
        Cause("NCCL remote error", 3, "error", True),
        Cause("framework", 404, "error", False),
        Cause("script", 1_890, "error", False),
    ),
)
"""Acme's Table 3 (NSDI'24): failed jobs of LLM development in six months.

The rows of infrastructure sum to 281 cases. Framework and script are sums of many rows each.
"""


CAMPAIGNS: Registry[Campaign] = Registry(
    "prism_sim.operations.campaigns",
    BYTEROBUST,
    ACME,
    name_of=lambda campaign: campaign.name,
)
"""Each campaign by its name in a study."""
