"""Operations of a layer besides matrix products, and their duration.

Norms, residual sums, dropout and activation functions do little arithmetic on much data: each
reads the output of the previous one, so their time is that of their bytes in memory.
Their share decreases with a model's width, since matrix products grow with its square; that is
why small models reach a smaller fraction of their GPU's peak than large ones.

Bytes are counted in 16-bit activations, forward: a norm reads and writes (4), twice a layer;
a residual sum reads two and writes one (6), with dropout and its mask one more (7), twice;
an activation function reads and writes (4), a gated one reads two (6). Attention scores, where
they pass through memory, are written by one product, read and written by softmax and by dropout,
with its mask, and read by the next product (13). Tokens for experts are copied out and
collected again (8 for each expert a token is sent to). Backward moves twice as much.

References: Korthikanti et al., Reducing activation recomputation, arXiv 2205.05198, section 4.1
(what is kept of each operation); Dao et al., FlashAttention, NeurIPS'22 (scores on the chip).
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import JobConfig


@dataclass(frozen=True)
class Kernels:
    """Memory traffic of operations, and the computation of attention.

    Attributes
    ----------
    masked : fraction of the scores that is computed; 1/2 if the causal mask's blocks are skipped.
    stream : bytes per token and element of the residual stream [bytes].
    activation : bytes per token and element of the feed-forward part; half as much again if gated.
    score : bytes per attention score.
    routing : bytes per token, expert it is sent to, and element of the residual stream.
    """

    masked: float
    stream: int
    activation: int
    score: int
    routing: int


KERNELS: dict[str, Kernels] = {
    "ideal": Kernels(masked=1.0, stream=0, activation=0, score=0, routing=0),
    "unfused": Kernels(masked=1.0, stream=2 * (4 + 7), activation=4, score=13, routing=8),
    "fused": Kernels(masked=0.5, stream=2 * (4 + 6), activation=4, score=0, routing=8),
}
"""Every kind by its name in a scenario."""


def score_memory_ns(job: JobConfig, cluster: Cluster) -> float:
    """Time of a layer's attention scores in memory, forward, per micro-batch [ns]."""
    scores = job.model.heads * job.tokens * job.local_tokens / job.tp
    return KERNELS[job.kernels].score * scores / cluster.gpu.memory_gbytes_per_s


def layer_memory_ns(job: JobConfig, moe: bool, cluster: Cluster) -> float:
    """Time of all memory traffic of a layer, forward, per micro-batch [ns].

    Tensor-parallel ranks share the traffic inside attention and the feed-forward part; with
    sequence parallelism, also the traffic between them.
    """
    kernels, model = KERNELS[job.kernels], job.model
    width = model.ffn_width
    between = float(kernels.stream * model.hidden)
    inside = 0.0
    if moe and job.mixture is not None:
        width = (job.mixture.hidden or width) * (job.mixture.top_k + job.mixture.shared)
        inside += kernels.routing * job.mixture.top_k * model.hidden
    inside += kernels.activation * width * (1.5 if model.gated_ffn else 1.0)
    shared_by = job.tp if job.sequence_parallel else 1
    size = job.local_tokens * (between / shared_by + inside / job.tp)
    return size / cluster.gpu.memory_gbytes_per_s + score_memory_ns(job, cluster)
