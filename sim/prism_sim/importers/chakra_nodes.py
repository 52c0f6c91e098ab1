"""One node of a Chakra execution trace, whatever form its file has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NODE_TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE", "BATCH_NODE",
    "CHECKPOINT_NODE",
)  # fmt: skip
"""Names of node types by their numbers."""


@dataclass(frozen=True)
class Node:
    """The used fields of one node of a rank's trace.

    Attributes
    ----------
    type : one of :data:`NODE_TYPES`, or its number if that is unknown.
    data_deps : nodes whose results it needs; they must finish first.
    control_deps : nodes that must finish first if the trace has them.
    values : the values of the node's inputs in the trace.
    attrs : attributes by name.
    """

    id: int
    name: str
    type: str
    data_deps: tuple[int, ...] = ()
    control_deps: tuple[int, ...] = ()
    duration_micros: int = 0
    values: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def deps(self) -> set[int]:
        """All nodes that must finish first."""
        return {*self.data_deps, *self.control_deps}
