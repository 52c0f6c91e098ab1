"""Published model sizes, by name.

``model: llama-7b`` in a scenario selects these. Tests compare them with the parameter counts in
the papers.
"""

from __future__ import annotations

from typing import Any

from prism_sim.scenario.architecture import Experts, LatentAttention
from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.words import did_you_mean


def _llama(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    ffn: int,
    kv_heads: int | None = None,
    **other: Any,
) -> ModelSizes:
    """Llama 2 (Touvron et al., arXiv 2307.09288): 32,000 tokens, context of 4,096.

    Later models of the same form have ``other`` values.
    """
    sizes = {"vocab": 32_000, "sequence_length": 4096, "gated_ffn": True} | other
    return ModelSizes(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn_hidden=ffn,
        **sizes,
    )


def _gpt(name: str, layers: int, hidden: int, heads: int) -> ModelSizes:
    """GPT as Megatron-LM trains it: vocabulary padded to 51,200, context of 2,048.

    Sizes: Korthikanti et al., arXiv 2205.05198, table 3; compute times are checked against the
    step times of the same paper. 175B and those below 10B are those of Brown et al., arXiv
    2005.14165, table 2.1; 1.3B has 16 heads, for whole numbers of elements a head.
    """
    return ModelSizes(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        biases=True,
        learned_positions=True,
        vocab=51_200,
        sequence_length=2048,
        tied_embeddings=True,
    )


_LLAMA_3: dict[str, Any] = {"vocab": 128_256, "sequence_length": 8192}

LLAMA_3_405B = ModelSizes(
    name="llama-3-405b",
    layers=126,
    hidden=16_384,
    heads=128,
    kv_heads=8,
    ffn_hidden=53_248,
    gated_ffn=True,
    vocab=128_256,
    sequence_length=8192,
)
"""Grattafiori et al., The Llama 3 herd of models, arXiv 2407.21783, table 3; the vocabulary is
that of the released checkpoint, which gives exactly its number of parameters."""

BLOOM_176B = ModelSizes(
    name="bloom-176b",
    layers=70,
    hidden=14_336,
    heads=112,
    biases=True,
    vocab=250_880,
    sequence_length=2048,
    tied_embeddings=True,
)
"""BigScience, arXiv 2211.05100, table 3, and the run's own script (bigscience-workshop/bigscience,
``train/tr11-176B-ml``). ALiBi has no parameters; the norm after the embedding (28,672 parameters)
is left out."""

MIXTRAL_8X7B = ModelSizes(
    name="mixtral-8x7b",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn_hidden=14_336,
    gated_ffn=True,
    vocab=32_000,
    sequence_length=4096,
    moe=Experts(experts=8, top_k=2),
)
"""Jiang et al., Mixtral of experts, arXiv 2401.04088, table 1; trained here, as in Megatron-Core's
example, with sequences of 4,096."""

DEEPSEEK_V3 = ModelSizes(
    name="deepseek-v3",
    layers=61,
    hidden=7168,
    heads=128,
    ffn_hidden=18_432,
    gated_ffn=True,
    vocab=129_280,
    sequence_length=4096,
    latent_attention=LatentAttention(
        query_rank=1536, kv_rank=512, content_width=128, rotary_width=64, value_width=128
    ),
    moe=Experts(experts=256, top_k=8, shared=1, hidden=2048, dense_layers=3),
)
"""DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437, section 4.2, and the configuration file of its
repository. Without the multi-token prediction module (14 billion more, shared ones included);
routing is not confined to four servers of a group, as theirs is."""

BLOOM_1B7 = ModelSizes(
    name="bloom-1b7",
    layers=24,
    hidden=2048,
    heads=16,
    biases=True,
    vocab=250_880,
    sequence_length=2048,
    tied_embeddings=True,
)
"""BigScience, arXiv 2211.05100, table 3; as for 176B, without the norm after the embedding (4,096
parameters)."""

OLMOE_1B_7B = ModelSizes(
    name="olmoe-1b-7b",
    layers=16,
    hidden=2048,
    heads=16,
    ffn_hidden=1024,
    gated_ffn=True,
    vocab=50_304,
    sequence_length=4096,
    moe=Experts(experts=64, top_k=8),
)
"""Muennighoff et al., OLMoE, arXiv 2409.02060, table 1; norms of queries and keys (65,536
parameters) are left out."""

PRESETS: dict[str, ModelSizes] = {
    sizes.name: sizes
    for sizes in (
        _llama("llama-7b", layers=32, hidden=4096, heads=32, ffn=11_008),
        _llama("llama-13b", layers=40, hidden=5120, heads=40, ffn=13_824),
        _llama("llama-70b", layers=80, hidden=8192, heads=64, ffn=28_672, kv_heads=8),
        # Zhang et al., TinyLlama, arXiv 2401.02385.
        _llama("tinyllama-1.1b", 22, 2048, 32, 5632, kv_heads=4, sequence_length=2048),
        # Jiang et al., Mistral 7B, arXiv 2310.06825, table 1; trained here with 4,096 tokens.
        _llama("mistral-7b", 32, 4096, 32, 14_336, kv_heads=8),
        # Llama 3, arXiv 2407.21783, and the released configurations of 3.2; 8,192 tokens.
        _llama("llama-3-8b", 32, 4096, 32, 14_336, kv_heads=8, **_LLAMA_3),
        _llama("llama-3.2-1b", 16, 2048, 32, 8192, kv_heads=8, tied_embeddings=True, **_LLAMA_3),
        _llama("llama-3.2-3b", 28, 3072, 24, 8192, kv_heads=8, tied_embeddings=True, **_LLAMA_3),
        _gpt("gpt-1.3b", layers=24, hidden=2048, heads=16),
        _gpt("gpt-2.7b", layers=32, hidden=2560, heads=32),
        _gpt("gpt-6.7b", layers=32, hidden=4096, heads=32),
        _gpt("gpt-22b", layers=48, hidden=6144, heads=64),
        _gpt("gpt-175b", layers=96, hidden=12_288, heads=96),
        _gpt("gpt-530b", layers=105, hidden=20_480, heads=128),
        _gpt("gpt-1t", layers=128, hidden=25_600, heads=160),
        LLAMA_3_405B,
        BLOOM_1B7,
        BLOOM_176B,
        OLMOE_1B_7B,
        MIXTRAL_8X7B,
        DEEPSEEK_V3,
    )
}
"""Published model sizes by preset name."""


def preset(name: str) -> ModelSizes:
    """Sizes of the preset called ``name``; ValueError, with a similar name, if there is none.

    >>> preset("llama-7b").layers
    32
    """
    if name in PRESETS:
        return PRESETS[name]
    raise ValueError(f"no model preset is called {name!r}; {did_you_mean(name, PRESETS)}")
