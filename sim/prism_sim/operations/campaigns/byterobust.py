"""ByteRobust's Table 1 (arXiv 2509.16293): 778,135 jobs in three months.

The rows sum to 55,365. The paper's text has other totals (38,236 explicit and 5,948 implicit
failures, where the rows give 39,687 and 6,096); the rows are used here.
"""

from __future__ import annotations

from prism_sim.operations.campaigns.base import Campaign
from prism_sim.operations.causes import Cause

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
