"""Faults of a simulated cluster, one file a kind.

A new kind is a new file with a class that derives from
:class:`~prism_sim.faults.base.FaultBase` and has a literal ``kind``, and one entry in
:data:`KINDS` below, or an entry point ``prism_sim.faults`` of another package. Schema, loading,
listing and truth follow from that. The parts of a cluster that a fault may change are in
:mod:`prism_sim.faults.target`.
"""

from __future__ import annotations

from prism_sim.faults.base import FaultBase
from prism_sim.faults.failed_uplinks import FailedUplinks
from prism_sim.faults.slow_gpu import SlowGpu
from prism_sim.faults.slow_link import SlowLink
from prism_sim.faults.slow_nic import SlowNic
from prism_sim.faults.slow_switch import SlowSwitch
from prism_sim.registry import Registry, by_literal

KINDS: Registry[type[FaultBase]] = Registry(
    "prism_sim.faults", SlowGpu, SlowNic, SlowLink, SlowSwitch, FailedUplinks, name_of=by_literal
)
"""The class of each kind of fault, by its name in a scenario."""

__all__ = [
    "KINDS",
    "FailedUplinks",
    "FaultBase",
    "SlowGpu",
    "SlowLink",
    "SlowNic",
    "SlowSwitch",
]
