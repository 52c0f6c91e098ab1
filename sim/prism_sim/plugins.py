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
    from prism_sim.scenario.routing.base import Choice, RoutingBase
    from prism_sim.scenario.setting import Setting
    from prism_sim.training.collectives import ALGORITHMS, AllReduceBase
    from prism_sim.training.data_parallel.base import DataParallel, StrategyBase
    from prism_sim.training.exchanges.base import Around, ExchangeBase, blocking
    from prism_sim.training.habits.base import Habit, HabitBase
    from prism_sim.training.schedules.base import ScheduleBase
    from prism_sim.training.schedules.work import (
        BACKWARD,
        FORWARD,
        WEIGHTS,
        WHOLE,
        Place,
        Work,
    )
    from prism_sim.truth import NO_MICRO_BATCH

__all__ = [
    "ALGORITHMS",
    "BACKWARD",
    "FORWARD",
    "NO_MICRO_BATCH",
    "SLOW_ACCESS",
    "SLOW_COMPUTE",
    "WEIGHTS",
    "WHOLE",
    "AllReduceBase",
    "Around",
    "Choice",
    "Culprit",
    "DataParallel",
    "EffectBase",
    "ExchangeBase",
    "FaultBase",
    "Habit",
    "HabitBase",
    "LinkFault",
    "OfJob",
    "OfLeaf",
    "OfLink",
    "OfNic",
    "OfRank",
    "OfServer",
    "OfStage",
    "OfSwitch",
    "Place",
    "Pulsed",
    "Remark",
    "Remarks",
    "RoutingBase",
    "ScheduleBase",
    "Setting",
    "SlowFault",
    "StrategyBase",
    "Target",
    "Undo",
    "Work",
    "blocking",
]

_HOME = {
    "ALGORITHMS": "prism_sim.training.collectives",
    "AllReduceBase": "prism_sim.training.collectives",
    "Around": "prism_sim.training.exchanges.base",
    "BACKWARD": "prism_sim.training.schedules.work",
    "Choice": "prism_sim.scenario.routing.base",
    "Culprit": "prism_sim.faults.base",
    "DataParallel": "prism_sim.training.data_parallel.base",
    "EffectBase": "prism_sim.collector.effects.base",
    "ExchangeBase": "prism_sim.training.exchanges.base",
    "FORWARD": "prism_sim.training.schedules.work",
    "FaultBase": "prism_sim.faults.base",
    "Habit": "prism_sim.training.habits.base",
    "HabitBase": "prism_sim.training.habits.base",
    "LinkFault": "prism_sim.faults.base",
    "NO_MICRO_BATCH": "prism_sim.truth",
    "OfJob": "prism_sim.faults.places",
    "OfLeaf": "prism_sim.faults.places",
    "OfLink": "prism_sim.faults.places",
    "OfNic": "prism_sim.faults.places",
    "OfRank": "prism_sim.faults.places",
    "OfServer": "prism_sim.faults.places",
    "OfStage": "prism_sim.faults.places",
    "OfSwitch": "prism_sim.faults.places",
    "Place": "prism_sim.training.schedules.work",
    "Pulsed": "prism_sim.faults.timing",
    "Remark": "prism_sim.scenario.base",
    "Remarks": "prism_sim.scenario.base",
    "RoutingBase": "prism_sim.scenario.routing.base",
    "SLOW_ACCESS": "prism_sim.faults.base",
    "SLOW_COMPUTE": "prism_sim.faults.base",
    "ScheduleBase": "prism_sim.training.schedules.base",
    "Setting": "prism_sim.scenario.setting",
    "SlowFault": "prism_sim.faults.base",
    "StrategyBase": "prism_sim.training.data_parallel.base",
    "Target": "prism_sim.faults.target",
    "Undo": "prism_sim.faults.target",
    "WEIGHTS": "prism_sim.training.schedules.work",
    "WHOLE": "prism_sim.training.schedules.work",
    "Work": "prism_sim.training.schedules.work",
    "blocking": "prism_sim.training.exchanges.base",
}


def __getattr__(name: str) -> Any:
    """Import a class on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
