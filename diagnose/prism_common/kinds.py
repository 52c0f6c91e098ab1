"""The kinds of traffic and of work in all tables.

The truth, a diagnosis, a score and a figure use these words with the same meaning, so they are
defined only here. Traffic between two addresses is of one kind: that of the
parallelism it serves, or ``other``.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

DP: Final = "dp"
"""Data parallelism: gradients and sharded parameters."""
PP: Final = "pp"
"""Pipeline parallelism: activations and their gradients, from stage to stage."""
EP: Final = "ep"
"""Expert parallelism: tokens that are sent to experts and back."""
CP: Final = "cp"
"""Context parallelism: keys and values of the parts of a sequence."""
TP: Final = "tp"
"""Tensor parallelism: activations within a layer."""
OTHER: Final = "other"
"""Any other: tied embeddings, storage, control traffic, background."""
UNKNOWN: Final = "unknown"
"""Not determined by the diagnosis; never in the truth."""
COMPUTE: Final = "compute"
"""Of spans: work on the GPU."""

TrafficKind = Literal["dp", "pp", "ep", "cp", "tp", "other"]
"""All kinds of traffic."""
GroupKind = Literal["dp", "tp", "ep", "cp", "other"]
"""Kinds of traffic of groups that communicate collectively."""

TRAFFIC: Final[tuple[TrafficKind, ...]] = get_args(TrafficKind)
INFERRED: Final[tuple[str, ...]] = (*TRAFFIC, UNKNOWN)
"""Kinds of traffic in a diagnosis."""
AXES: Final[tuple[str, ...]] = (DP, PP, TP, EP, CP)
"""The dimensions of a parallel layout, in the order in which tables list them."""
SPANS: Final[tuple[str, ...]] = (DP, PP, COMPUTE)
"""Kinds of spans in a diagnosis."""
