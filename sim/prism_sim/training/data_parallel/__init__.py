"""Data-parallel strategies, which keep the parameters of replicas equal.

A new strategy is a class that derives from
:class:`~prism_sim.training.data_parallel.base.StrategyBase` and has a literal ``kind``, and one
entry in :data:`STRATEGIES`; or an entry point ``prism_sim.strategies`` of another package.
"""

from __future__ import annotations

from prism_sim.registry import Registry, by_literal
from prism_sim.training.data_parallel.base import (
    DataParallel,
    ParameterSet,
    Pass,
    StrategyBase,
    buckets,
)
from prism_sim.training.data_parallel.replicated import Plain, Zero1, Zero2, Zero3

STRATEGIES: Registry[type[StrategyBase]] = Registry(
    "prism_sim.strategies", Plain, Zero1, Zero2, Zero3, name_of=by_literal
)
"""Every strategy by its name in a scenario."""

__all__ = ["STRATEGIES", "DataParallel", "ParameterSet", "Pass", "StrategyBase", "buckets"]
