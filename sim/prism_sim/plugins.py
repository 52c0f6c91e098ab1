"""Base classes for kinds of other packages: faults, schedules, strategies, habits, ...

A package derives a class from one of these, and registers it as an entry point (docs/methods.md,
"Kinds of other packages"). These names are stable; the modules that they come from may move. Each
is imported on first use, because a kind may be loaded while this package is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_sim.collector.effects.base import EffectBase
    from prism_sim.faults.base import (
        SLOW_ACCESS,
        SLOW_COMPUTE,
        Culprit,
        FaultBase,
        LinkFault,
        SlowFault,
    )
    from prism_sim.faults.places import (
        OfJob,
        OfLeaf,
        OfLink,
        OfNic,
        OfRank,
        OfServer,
        OfStage,
        OfSwitch,
    )
    from prism_sim.faults.target import Target, Undo
    from prism_sim.faults.timing import Pulsed
    from prism_sim.scenario.base import Remark, Remarks
    from prism_sim.scenario.routing import Choice, RoutingBase
    from prism_sim.scenario.setting import Setting
    from prism_sim.training.collectives import ALGORITHMS, AllReduceBase
    from prism_sim.training.data_parallel.base import DataParallel, StrategyBase
    from prism_sim.training.exchanges.base import Around, ExchangeBase, blocking
    from prism_sim.training.habits.base import Habit, HabitBase
    from prism_sim.training.schedules.base import ScheduleBase
    from prism_sim.training.schedules.work import BACKWARD, FORWARD, WEIGHTS, WHOLE, Place, Work
    from prism_sim.truth import NO_MICRO_BATCH

__all__ = [
    "ALGORITHMS", "BACKWARD", "FORWARD", "NO_MICRO_BATCH", "SLOW_ACCESS", "SLOW_COMPUTE", "WEIGHTS",
    "WHOLE", "AllReduceBase", "Around", "Choice", "Culprit", "DataParallel", "EffectBase",
    "ExchangeBase", "FaultBase", "Habit", "HabitBase", "LinkFault", "OfJob", "OfLeaf", "OfLink",
    "OfNic", "OfRank", "OfServer", "OfStage", "OfSwitch", "Place", "Pulsed", "Remark", "Remarks",
    "RoutingBase", "ScheduleBase", "Setting", "SlowFault", "StrategyBase", "Target", "Undo", "Work",
    "blocking",
]  # fmt: skip

_NAMES = {
    "collector.effects.base": "EffectBase",
    "faults.base": "Culprit FaultBase LinkFault SLOW_ACCESS SLOW_COMPUTE SlowFault",
    "faults.places": "OfJob OfLeaf OfLink OfNic OfRank OfServer OfStage OfSwitch",
    "faults.target": "Target Undo",
    "faults.timing": "Pulsed",
    "scenario.base": "Remark Remarks",
    "scenario.routing": "Choice RoutingBase",
    "scenario.setting": "Setting",
    "training.collectives": "ALGORITHMS AllReduceBase",
    "training.data_parallel.base": "DataParallel StrategyBase",
    "training.exchanges.base": "Around ExchangeBase blocking",
    "training.habits.base": "Habit HabitBase",
    "training.schedules.base": "ScheduleBase",
    "training.schedules.work": "BACKWARD FORWARD Place WEIGHTS WHOLE Work",
    "truth": "NO_MICRO_BATCH",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of every name."""


def __getattr__(name: str) -> Any:
    """Import a class on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"prism_sim.{_HOME[name]}"), name)
