"""Published model sizes, by name: those of ``presets.toml``, which names their sources."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from prism_sim.scenario.model_sizes import ModelSizes
from prism_sim.scenario.words import did_you_mean


def _read() -> dict[str, ModelSizes]:
    data = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
    forms: dict[str, dict[str, Any]] = {"": {}, **data["forms"]}
    return {
        name: ModelSizes(name=name, **{**forms[own.pop("form", "")], **own})
        for name, own in data["models"].items()
    }


PRESETS: dict[str, ModelSizes] = _read()
"""Published model sizes by preset name."""


def preset(name: str) -> ModelSizes:
    """Sizes of the preset called ``name``; ValueError, with a similar name, if there is none.

    >>> preset("llama-7b").layers
    32
    """
    if name in PRESETS:
        return PRESETS[name]
    raise ValueError(f"no model preset is called {name!r}; {did_you_mean(name, PRESETS)}")
