"""The sizes of a transformer, and its number of parameters.

The network depends on nothing else of a model: compute times follow from the sizes, and so do
the bytes between pipeline stages and the gradients that replicas exchange.
"""

from __future__ import annotations

from pydantic import Field

from prism_sim.scenario.architecture import Experts, LatentAttention
from prism_sim.scenario.base import Closed


class ModelSizes(Closed):
    """Sizes of a decoder-only transformer.

    Parameter counts follow from the weight matrices of one layer: four of attention
    (smaller keys and values with grouped queries), two of the feed-forward part (three if
    it is gated), two norms. Reference: Narayanan et al., SC'21, eq. 2, for the GPT form
    (12 l h^2 (1 + 13/12h + (V + s)/12lh)); Touvron et al., arXiv 2307.09288, for LLaMA's.
    """

    name: str = Field(default="custom", description="Name of the model in reports.")
    layers: int = Field(ge=1, le=10_000, description="Transformer layers.")
    hidden: int = Field(ge=1, le=10_000_000, description="Width of the residual stream [elements].")
    heads: int = Field(ge=1, le=1_000_000, description="Attention heads; must divide hidden.")
    kv_heads: int | None = Field(default=None, ge=1, le=1_000_000)
    """Key and value heads (grouped-query attention). Left out: as many as heads."""
    ffn_hidden: int | None = Field(default=None, ge=1, le=100_000_000)
    """Feed-forward width [elements]. Left out: 4 x hidden."""
    gated_ffn: bool = False
    """Three feed-forward matrices (SwiGLU, as in LLaMA) instead of two."""
    biases: bool = False
    """Biases in every matrix and norm, as in GPT-2 and GPT-3; LLaMA has none."""
    learned_positions: bool = False
    """A learned embedding per position, as in GPT-2 and GPT-3; LLaMA has none."""
    vocab: int = Field(ge=1, le=1_000_000_000)
    """Entries of the vocabulary, padding included."""
    sequence_length: int = Field(ge=1, le=1_000_000_000)
    """Tokens in a training sequence."""
    head_outputs: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Outputs of the head, if different from the vocabulary. Left out: vocab."""
    tied_embeddings: bool = False
    """The head uses the embedding's matrix instead of its own."""
    latent_attention: LatentAttention | None = None
    """Multi-head latent attention (DeepSeek). Left out: plain attention, whose heads share the
    width of the residual stream."""
    moe: Experts | None = None
    """The model's mixture of experts. Left out: it is dense."""

    @property
    def kv_hidden(self) -> int:
        """Width of keys, and of values [elements]."""
        return self.hidden * (self.kv_heads or self.heads) // self.heads

    @property
    def ffn_width(self) -> int:
        """Width of the feed-forward part [elements]."""
        return self.ffn_hidden or 4 * self.hidden

    @property
    def attention_parameters(self) -> int:
        """Parameters of a layer's attention matrices."""
        if self.latent_attention is not None:
            return self.latent_attention.parameters(self.hidden, self.heads)
        return 2 * self.hidden * (self.hidden + self.kv_hidden)

    @property
    def output_parameters(self) -> int:
        """Parameters of the projection after attention, which are included above."""
        if self.latent_attention is not None:
            return self.latent_attention.output_parameters(self.hidden, self.heads)
        return self.hidden * self.hidden

    @property
    def score_width(self) -> float:
        """Width of all heads, the mean of the widths of queries and of values [elements]."""
        latent = self.latent_attention
        if latent is None:
            return self.hidden
        query = latent.content_width + latent.rotary_width
        return self.heads * (query + latent.value_width) / 2

    @property
    def matrix_parameters_per_layer(self) -> int:
        """Parameters of one dense layer that take part in matrix products."""
        return self.attention_parameters + self.feed_forward_parameters(self.ffn_width)

    def feed_forward_parameters(self, width: int) -> int:
        """Parameters of the matrices of a feed-forward part, or of an expert, of ``width``."""
        return (3 if self.gated_ffn else 2) * self.hidden * width

    def expert_parameters(self, moe: Experts) -> int:
        """Parameters of the matrices of one of the experts ``moe``."""
        return self.feed_forward_parameters(moe.hidden or self.ffn_width)

    def routed_parameters(self, moe: Experts, experts: int) -> int:
        """Parameters of a layer's router, its shared experts, and ``experts`` of the others."""
        return (moe.shared + experts) * self.expert_parameters(moe) + self.hidden * moe.experts

    @property
    def parameters_per_layer(self) -> int:
        """Parameters of one dense layer: matrices, biases, and norms."""
        bias = 2 * self.hidden + 2 * self.kv_hidden  # query and output, key and value
        bias += self.hidden + (2 if self.gated_ffn else 1) * self.ffn_width
        latent = self.latent_attention
        norms = 2 * self._norm_parameters + (latent.norm_parameters if latent else 0)
        return self.matrix_parameters_per_layer + norms + (bias if self.biases else 0)

    @property
    def outputs(self) -> int:
        """Number of outputs of the head."""
        return self.head_outputs or self.vocab

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the first layer: the token embedding, and positions if learned."""
        positions = self.sequence_length if self.learned_positions else 0
        return (self.vocab + positions) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters after the last layer: the final norm, and the head unless it is tied."""
        head = 0 if self.tied_embeddings else self.outputs * self.hidden
        return self._norm_parameters + head

    @property
    def total_parameters(self) -> int:
        """Parameters of the whole model."""
        return self._parameters(self.moe.experts if self.moe else 0)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the routed experts, only those it is sent to."""
        return self._parameters(self.moe.top_k if self.moe else 0)

    def _parameters(self, experts: int) -> int:
        """Parameters with ``experts`` of the routed experts of each layer."""
        layers = self.layers * self.parameters_per_layer
        if self.moe is not None:
            dense = self.feed_forward_parameters(self.ffn_width)
            mixed = self.routed_parameters(self.moe, experts)
            layers += (self.layers - self.moe.dense_layers) * (mixed - dense)
        return self.embedding_parameters + layers + self.head_parameters

    @property
    def _norm_parameters(self) -> int:
        return (2 if self.biases else 1) * self.hidden
