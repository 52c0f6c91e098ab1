"""Distributions of durations, one file a kind; a new kind is a new file and one entry below."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from prism_sim.operations.times.base import TimeBase
from prism_sim.operations.times.exponential import Exponential
from prism_sim.operations.times.lognormal import Lognormal
from prism_sim.operations.times.weibull import Weibull
from prism_sim.registry import Registry, by_literal, named

TIMES: Registry[type[TimeBase]] = Registry(
    "prism_sim.operations.times",
    Exponential,
    Weibull,
    Lognormal,
    name_of=by_literal,
)
"""Each kind by its name in a study."""

if TYPE_CHECKING:
    Time: TypeAlias = TimeBase
else:
    Time = named(TIMES)
