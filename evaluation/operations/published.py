"""Published figures of operations, and remarks on how ours compare: ``published.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Published:
    """A published figure: what it is, its value, and why ours may differ."""

    what: str
    value: str
    why: str


_DATA = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))

ACME_GPU_TIME: dict[str, float] = _DATA["acme"]["gpu_time"]
"""Acme's Table 3: percent of the GPU time of all failed jobs, of kinds that public notes quote."""

ACME_INFRASTRUCTURE: float = _DATA["acme"]["infrastructure"]
"""Percent of the GPU time of all failed jobs, of all kinds of infrastructure."""

BY_NAME = {name: Published(**figure) for name, figure in _DATA["figures"].items()}
