"""The kinds of traffic, and of work, that tables name.

The truth, a diagnosis, a score and a figure all mean the same by these words, so they are
defined here and nowhere else. Traffic between two addresses is of one kind: that of the
parallelism it serves, or ``other``.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

DP: Final = "dp"
"""Data parallelism: gradients and sharded parameters."""
PP: Final = "pp"
"""Pipeline parallelism: activations and their gradients, from stage to stage."""
EP: Final = "ep"
"""Expert parallelism: tokens on their way to experts and back."""
CP: Final = "cp"
"""Context parallelism: keys and values of the parts of a sequence."""
TP: Final = "tp"
"""Tensor parallelism: activations within a layer."""
OTHER: Final = "other"
"""Any other: tied embeddings, storage, control traffic, background."""
UNKNOWN: Final = "unknown"
"""What a diagnosis cannot tell; never in the truth."""
COMPUTE: Final = "compute"
"""Of spans: work on the GPU."""

TrafficKind = Literal["dp", "pp", "ep", "cp", "tp", "other"]
"""What traffic can be."""
GroupKind = Literal["dp", "tp", "ep", "cp", "other"]
"""What the traffic of a group that communicates collectively can be."""

TRAFFIC: Final[tuple[TrafficKind, ...]] = get_args(TrafficKind)
INFERRED: Final[tuple[str, ...]] = (*TRAFFIC, UNKNOWN)
"""What a diagnosis may call traffic."""
AXES: Final[tuple[str, ...]] = (DP, PP, TP, EP, CP)
"""The dimensions of a parallel layout, in the order in which tables list them."""
SPANS: Final[tuple[str, ...]] = (DP, PP, COMPUTE)
"""What a diagnosis may call a span."""
