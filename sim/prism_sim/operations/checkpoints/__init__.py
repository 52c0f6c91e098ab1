"""Checkpoint policies, one file a kind; a new kind is a new file and one entry below."""

from __future__ import annotations

from prism_sim.operations.checkpoints.asynchronous import Asynchronous
from prism_sim.operations.checkpoints.base import CheckpointBase
from prism_sim.operations.checkpoints.every_step import EveryStep
from prism_sim.operations.checkpoints.synchronous import Synchronous
from prism_sim.registry import Registry, by_literal

CHECKPOINTS: Registry[type[CheckpointBase]] = Registry(
    "prism_sim.operations.checkpoints",
    Synchronous,
    Asynchronous,
    EveryStep,
    name_of=by_literal,
)
"""Each kind by its name in a study."""
