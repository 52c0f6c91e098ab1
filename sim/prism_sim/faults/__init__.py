"""Faults of a simulated cluster.

A new kind is a class that derives from
:class:`~prism_sim.faults.base.FaultBase` and has a literal ``kind``, and one entry in
:data:`KINDS` below, or an entry point ``prism_sim.faults`` of another package. Schema, loading,
listing and truth follow from that. The parts of a cluster that a fault may change are in
:mod:`prism_sim.faults.target`.
"""

from __future__ import annotations

from prism_sim.faults.base import FaultBase
from prism_sim.faults.computing import (
    DegradedNvlink,
    ExpertImbalance,
    GcPauses,
    IntermittentGpu,
    LengthImbalance,
    LoaderStalls,
    SlowGpu,
    SlowServer,
    ThermalRamp,
    UnevenStage,
)
from prism_sim.faults.links import FlappingNic, LossyLink, SlowLink, SlowNic
from prism_sim.faults.stopping import Crash, Hang, StoppedNic
from prism_sim.faults.switches import (
    FailedLeaf,
    FailedPlane,
    FailedUplinks,
    MisconfiguredSwitch,
    PausedPort,
    PolarisedHashing,
    SlowSwitch,
    UnevenSpraying,
)
from prism_sim.faults.traffic import IncastBurst, JobCongestion, SlowStorage
from prism_sim.registry import Registry, by_literal

KINDS: Registry[type[FaultBase]] = Registry(
    "prism_sim.faults", SlowGpu, ThermalRamp, IntermittentGpu, SlowServer, GcPauses, LoaderStalls,
    UnevenStage, DegradedNvlink, LengthImbalance, ExpertImbalance, SlowNic, FlappingNic, SlowLink,
    LossyLink, SlowSwitch, MisconfiguredSwitch, FailedUplinks, FailedLeaf, FailedPlane,
    PolarisedHashing, UnevenSpraying, PausedPort, JobCongestion, IncastBurst, SlowStorage, Hang,
    Crash, StoppedNic, name_of=by_literal,
)  # fmt: skip
"""The class of each kind of fault, by its name in a scenario."""

__all__ = ["KINDS", "FailedUplinks", "FaultBase", "SlowGpu", "SlowLink", "SlowNic", "SlowSwitch"]
