"""How replicas keep their parameters in step, one file a strategy.

A new strategy is a new file and one line in :data:`STRATEGIES`.
"""

from __future__ import annotations

from prism_sim.training.data_parallel.base import DataParallel, Family, Pass
from prism_sim.training.data_parallel.fully_sharded import FullySharded
from prism_sim.training.data_parallel.replicated import (
    Replicated,
    ShardedGradients,
    ShardedOptimizer,
)

STRATEGIES: dict[int, type[DataParallel]] = {
    0: Replicated,
    1: ShardedOptimizer,
    2: ShardedGradients,
    3: FullySharded,
}
"""Every strategy by its ZeRO stage."""

__all__ = ["STRATEGIES", "DataParallel", "Family", "Pass"]
