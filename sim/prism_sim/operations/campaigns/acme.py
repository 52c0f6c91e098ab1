"""Acme's Table 3 (NSDI'24): failed jobs of LLM development in six months.

The rows of infrastructure sum to 281 cases. Framework and script are sums of many rows each.
"""

from __future__ import annotations

from prism_sim.operations.campaigns.base import Campaign
from prism_sim.operations.causes import Cause

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
