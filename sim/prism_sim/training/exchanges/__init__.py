"""What parallel ranks exchange inside a pass, one file a kind of parallelism."""

from __future__ import annotations

from prism_sim.training.exchanges.base import Exchange, pass_program
from prism_sim.training.exchanges.context import Ringed
from prism_sim.training.exchanges.expert import Dispatched
from prism_sim.training.exchanges.tensor import Scattered, Summed

__all__ = ["Dispatched", "Exchange", "Ringed", "Scattered", "Summed", "pass_program"]
