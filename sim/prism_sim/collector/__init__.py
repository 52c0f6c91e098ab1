"""The collector turns transfers on the wire into flow records.

A transfer passes a chain of small stages before it is written: additional traffic on the wire,
the switches that observe it, the cutting of packets into records, and changes to finished records.
Each stage is an *effect* (:mod:`prism_sim.collector.effects`), off unless the scenario lists it.

Reading a scenario needs the effects but not the collector, so that is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_sim.collector.collecting import Collector

_HOMES = {"Collector": "collecting"}

__all__ = ["Collector"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
