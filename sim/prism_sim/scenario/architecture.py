"""Parts of some transformers: a mixture of experts, and latent attention."""

from __future__ import annotations

from pydantic import Field

from prism_sim.scenario.base import Closed


class Experts(Closed):
    """A mixture of experts, which replaces the feed-forward part of layers."""

    experts: int = Field(ge=2, le=1_000_000, description="Experts of a layer; ep must divide them.")
    top_k: int = Field(default=2, ge=1, le=1_000_000)
    """Experts that each token is sent to."""
    shared: int = Field(default=0, ge=0, le=1_000_000)
    """Shared experts, which every rank has and every token uses."""
    hidden: int | None = Field(default=None, ge=1, le=100_000_000)
    """Width of an expert [elements]. Left out: the model's."""
    dense_layers: int = Field(default=0, ge=0, le=10_000)
    """First layers that have no experts."""
    servers: int | None = Field(default=None, ge=1, le=1_000_000)
    """Node-limited routing: servers that the experts of a token are in. A token crosses the network
    once for each of them, to the GPU at its own position there, and goes on over NVLink. Left out:
    a copy for each expert crosses the network."""
    dispatch_bytes: int | None = Field(default=None, ge=1, le=8)
    """Bytes of an element of a token that is sent to an expert (FP8: 1). Results come back with
    activation_bytes. Left out: activation_bytes."""
    imbalance: float = Field(default=0.0, ge=0, le=2)
    """Sigma of the lognormal share of tokens that a rank receives, drawn for each layer and
    micro-batch. 0: all ranks receive the same."""


class LatentAttention(Closed):
    """Multi-head latent attention: queries, keys and values come from narrow shared vectors.

    Down-projections compute the narrow vectors, up-projections the heads; all heads share one
    rotary key. Reference: DeepSeek-AI, DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """

    query_rank: int = Field(ge=1, le=10_000_000)
    """Width of the narrow vector of queries [elements]."""
    kv_rank: int = Field(ge=1, le=10_000_000)
    """Width of the narrow vector of keys and values, without the rotary key."""
    content_width: int = Field(ge=1, le=10_000_000)
    """Width of a head's query and key, without the rotary part."""
    rotary_width: int = Field(ge=1, le=10_000_000)
    """Width of the rotary part of a query or key."""
    value_width: int = Field(ge=1, le=10_000_000, description="Width of a head's value.")

    def parameters(self, hidden: int, heads: int) -> int:
        """Parameters of all its matrices."""
        query = self.query_rank * (hidden + heads * (self.content_width + self.rotary_width))
        down = hidden * (self.kv_rank + self.rotary_width)
        up = self.kv_rank * heads * (self.content_width + self.value_width)
        return query + down + up + self.output_parameters(hidden, heads)

    def output_parameters(self, hidden: int, heads: int) -> int:
        """Parameters of the projection after attention."""
        return heads * self.value_width * hidden

    @property
    def norm_parameters(self) -> int:
        """Parameters of the norms of the narrow vectors."""
        return self.query_rank + self.kv_rank
