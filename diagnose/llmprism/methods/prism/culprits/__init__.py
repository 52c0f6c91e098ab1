"""Kinds of culprits. A new kind is a file here and a line in :data:`KINDS`."""

from __future__ import annotations

from llmprism.methods.prism.culprits.base import HypothesesOf
from llmprism.methods.prism.culprits.network import network
from llmprism.methods.prism.culprits.units import (
    imbalance,
    servers,
    stages,
    unexplained,
    units,
    whole_job,
)

KINDS: dict[str, HypothesesOf] = {
    "unit": units,
    "server": servers,
    "stage": stages,
    "job": whole_job,
    "imbalance": imbalance,
    "network": network,
    "unexplained": unexplained,
}
"""Makes the hypotheses of each kind."""
