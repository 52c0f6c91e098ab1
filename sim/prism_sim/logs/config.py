"""The section ``logs`` of a scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.logs.failures import FAILURES
from prism_sim.logs.files import Compression
from prism_sim.logs.job import Layout, NcclDebug
from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.words import did_you_mean

Population = Literal["open", "exam", "all"]


class Logs(Closed):
    """The logs of the scenario's jobs, and of drawn jobs that ended before it begins."""

    failures: int = Field(default=0, ge=0, le=1_000_000)
    """Failed jobs to draw, besides the scenario's."""
    successes: float = Field(default=1.0, ge=0, le=1000)
    """Mean number of successful jobs of the same user before each failed one."""
    users: int = Field(default=12, ge=1, le=10_000, description="Users of the drawn jobs.")
    population: Population = "open"
    """open: failure kinds and tool versions that are not held out. exam: jobs with a held-out kind,
    or with held-out versions. all: both."""
    kinds: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Failure kinds that may occur; see: prism-sim list failures. They replace the choice of
    `population` among kinds. Left out: all of it."""
    min_nodes: int = Field(default=2, ge=1, le=100_000, description="Nodes of the smallest job.")
    max_nodes: int = Field(default=8, ge=1, le=100_000)
    """Nodes of the largest job; sizes are log-uniform. At most the cluster's."""
    iterations: int = Field(default=200, ge=8, le=10_000_000)
    """Median of the iterations of drawn jobs."""
    step_s: float = Field(default=5.0, ge=1e-3, le=1e5)
    """Median length of their iterations [s]."""
    layout: Layout | None = None
    """One file for each job, node or rank. Left out: drawn for each job."""
    nccl_debug: NcclDebug = "info"
    """NCCL_DEBUG: warn; info, which adds communicators and channels; coll, which adds a line for
    each collective call of each rank (most of the volume)."""
    calls: int = Field(default=16, ge=2, le=100_000)
    """Collective calls of a rank in an iteration."""
    compression: Compression = Field(default="gzip", description="Compression of all log files.")
    rotate_mbytes: int | None = Field(default=None, ge=1, le=1_000_000)
    """A file is rotated at this size [10^6 bytes, uncompressed]. Left out: never."""
    keep: int | None = Field(default=None, ge=1, le=10_000)
    """Parts of a file that are kept. Left out: all."""
    clock_spread_ms: float = Field(default=20.0, ge=0, le=1e7)
    """Standard deviation of the offsets of the nodes' clocks [ms]."""
    missing: float = Field(default=0.01, ge=0, le=1)
    """Probability that the files of a node are absent."""
    truncated: float = Field(default=0.02, ge=0, le=1)
    """Probability that the files of a node end early."""
    noise: float = Field(default=1.0, ge=0, le=1000)
    """Factor on the number of error lines that mean nothing."""
    repeats: float = Field(default=0.15, ge=0, le=1)
    """Probability that a GPU fault is followed by another failure of the same GPU, with another
    symptom, in the next job on its node."""

    def remarks(self, cluster: Cluster) -> Remarks:
        """Errors of the section with this cluster; locations are relative to the section."""
        if self.min_nodes > self.max_nodes:
            what = f"min_nodes ({self.min_nodes}) is larger than max_nodes ({self.max_nodes})"
            yield Remark(("min_nodes",), what, "lower it", (("logs", "max_nodes"),))
        if self.failures and self.max_nodes > cluster.servers:
            what = f"jobs of {self.max_nodes} nodes do not fit into {cluster.servers} servers"
            how = f"write max_nodes: {cluster.servers}"
            yield Remark(("max_nodes",), what, how, (("cluster", "servers"),))
        for index, name in enumerate(self.kinds or ()):
            if name not in FAILURES:
                what = f"{name!r} is not a failure kind"
                yield Remark(("kinds", index), what, did_you_mean(name, [*FAILURES]))
