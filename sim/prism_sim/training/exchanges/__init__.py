"""Exchanges of parallel ranks inside a pass, one file a kind of parallelism.

A new kind is a new file with a class that derives from
:class:`~prism_sim.training.exchanges.base.ExchangeBase`, and one entry in :data:`EXCHANGES`; or
an entry point ``prism_sim.exchanges`` of another package.
"""

from __future__ import annotations

from prism_sim.registry import Registry
from prism_sim.training.exchanges.base import Exchange, ExchangeBase, pass_program
from prism_sim.training.exchanges.expert import ExpertParallelism
from prism_sim.training.exchanges.tensor import ContextParallelism, TensorParallelism

EXCHANGES: Registry[type[ExchangeBase]] = Registry(
    "prism_sim.exchanges",
    TensorParallelism,
    ContextParallelism,
    ExpertParallelism,
    name_of=lambda exchange: exchange.name,
)
"""Every kind of exchange by its name, in the order of their nesting around a phase."""

__all__ = ["EXCHANGES", "Exchange", "ExchangeBase", "pass_program"]
