"""Model sizes as published, by name.

A scenario says ``model: llama-7b`` and gets these. The counts that the papers state are
held against them in the tests.
"""

from __future__ import annotations

from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.words import did_you_mean


def _llama(
    name: str, layers: int, hidden: int, heads: int, ffn: int, kv_heads: int | None = None
) -> ModelSizes:
    """Llama 2 (Touvron et al., arXiv 2307.09288): 32,000 tokens, context of 4,096."""
    return ModelSizes(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn_hidden=ffn,
        gated_ffn=True,
        vocab=32_000,
        sequence_length=4096,
    )


def _gpt(name: str, layers: int, hidden: int, heads: int) -> ModelSizes:
    """GPT as Megatron-LM trains it: vocabulary padded to 51,200, context of 2,048.

    Sizes: Korthikanti et al., arXiv 2205.05198, table 3; the same paper's step times are
    what compute is checked against. 175B is that of Brown et al., arXiv 2005.14165.
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


PRESETS: dict[str, ModelSizes] = {
    sizes.name: sizes
    for sizes in (
        _llama("llama-7b", layers=32, hidden=4096, heads=32, ffn=11_008),
        _llama("llama-13b", layers=40, hidden=5120, heads=40, ffn=13_824),
        _llama("llama-70b", layers=80, hidden=8192, heads=64, ffn=28_672, kv_heads=8),
        _gpt("gpt-22b", layers=48, hidden=6144, heads=64),
        _gpt("gpt-175b", layers=96, hidden=12_288, heads=96),
        _gpt("gpt-530b", layers=105, hidden=20_480, heads=128),
        _gpt("gpt-1t", layers=128, hidden=25_600, heads=160),
    )
}
"""Published model sizes by preset name."""


def preset(name: str) -> ModelSizes:
    """Sizes of the preset called ``name``; ValueError, with the nearest name, if there is none.

    >>> preset("llama-7b").layers
    32
    """
    if name in PRESETS:
        return PRESETS[name]
    raise ValueError(f"no model preset is called {name!r}; {did_you_mean(name, PRESETS)}")
